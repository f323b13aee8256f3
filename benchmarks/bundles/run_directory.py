"""What a bundle takes from a run directory."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.bundles import building
from benchmarks.bundles.archive import is_name
from benchmarks.bundles.building import Contents
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.suites import registry


def contents(path: Path, labels: Sequence[Path] = ()) -> Contents:
    """The finished run in a directory, and files of people's labels beside it.

    Raises: BenchmarkError for a directory without one finished run, and for labels that cannot be taken.
    """
    found = directory.finished_under(path)
    if found != [path]:
        raise BenchmarkError(f"{path}: holds {len(found)} runs: bundle each by itself, e.g. {found[0]}")
    result = directory.read_result(path)
    directory.read_manifest(path)
    wanted = (building.RESULT, building.MANIFEST, building.ITEMS, building.RESPONSES)
    if missing := [name for name in wanted if not (path / name).is_file()]:
        raise BenchmarkError(f"{path}: no {missing[0]}: a bundle needs the whole run directory")
    files = {name: path / name for name in wanted}
    absent = {building.LEDGER: "a run directory belongs to no store"}
    if (path / building.REPORT).is_file():
        files[building.REPORT] = path / building.REPORT
    else:
        absent[building.REPORT] = "the run directory has none"
    for name, label in _named(labels).items():
        files[name] = label
    if not labels:
        absent[building.LABELS] = "none were given (--labels)"
    return Contents(
        result=msgspec.to_builtins(result),
        files=files,
        absent=absent,
        does_not_show=registry.find(result.suite).does_not_show,
    )


def _named(labels: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in labels:
        name = building.LABELS + path.name
        if not path.is_file():
            raise BenchmarkError(f"{path}: no such file of labels")
        if not is_name(name):
            raise BenchmarkError(f"{path}: call it by up to 32 letters, digits, '.', '-' and '_' to put it in a bundle")
        if name in found:
            raise BenchmarkError(f"{path}: a second file of labels called {path.name}: rename one")
        found[name] = path
    return found
