"""`biasgate audit bundle`: packs a finished run into one file, with a statement about every file in it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.suites import registry
from gateway.features.bundles import building
from gateway.features.bundles.archive import is_name
from gateway.features.bundles.building import Contents
from gateway.features.bundles.signing import MAKE_A_KEY, read_private_key

HELP = f"""\
The bundle holds result, items, replies, options, report, versions, given labels, a page that maps numbers to
clauses, and a statement with the hash of each file. Without a signature, anyone could have made it.

Example:
  {MAKE_A_KEY}
  openssl pkey -in KEY.pem -pubout -out PUBLIC.pem
  biasgate audit bundle runs/first --out first.bundle --sign-key KEY.pem
  biasgate audit verify first.bundle --key PUBLIC.pem
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of one finished run")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where to write the bundle")
    parser.add_argument("--sign-key", type=Path, metavar="FILE", help="private Ed25519 key in PEM (default: unsigned)")
    words = "people's labels, or the output of judge calibrate --out; may be repeated"
    parser.add_argument("--labels", type=Path, action="append", default=[], metavar="FILE", help=words)


def run(arguments: argparse.Namespace) -> int:
    key = arguments.sign_key and read_private_key(arguments.sign_key)
    run_contents = contents(arguments.directory, arguments.labels)
    n_files = building.write_to(arguments.out, run_contents, key)
    signed = "signed" if key else "not signed (--sign-key)"
    print(visible_line(f"{arguments.out}: {n_files} files of {run_contents.result['suite']}, {signed}"))
    for name, reason in sorted(run_contents.absent.items()):
        print(visible_line(f"without {name}: {reason}"))
    return 0


def contents(path: Path, labels: Sequence[Path] = ()) -> Contents:
    """Return a bundle's contents. Raises BenchmarkError unless `path` is one finished run and labels are usable."""
    run_paths = directory.finished_under(path)
    if run_paths != [path]:
        raise BenchmarkError(f"{path}: holds {len(run_paths)} runs: bundle each separately, e.g. {run_paths[0]}")
    result = directory.read_result(path)
    directory.read_manifest(path)
    required = (building.RESULT, building.MANIFEST, building.ITEMS, building.RESPONSES)
    if missing := [name for name in required if not (path / name).is_file()]:
        raise BenchmarkError(f"{path}: no {missing[0]}: a bundle needs the whole run directory")
    files = {name: path / name for name in required}
    absent = {building.LEDGER: "a run directory has no ledger"}
    if (path / building.REPORT).is_file():
        files[building.REPORT] = path / building.REPORT
    else:
        absent[building.REPORT] = "the run directory has no report"
    files |= _labels_by_name(labels)
    if not labels:
        absent[building.LABELS] = "no labels were given (--labels)"
    does_not_show = registry.find(result.suite).does_not_show
    return Contents(result=msgspec.to_builtins(result), files=files, absent=absent, does_not_show=does_not_show)


def _labels_by_name(labels: Sequence[Path]) -> dict[str, Path]:
    path_by_name: dict[str, Path] = {}
    for path in labels:
        name = building.LABELS + path.name
        if not path.is_file():
            raise BenchmarkError(f"{path}: no such file of labels")
        if not is_name(name):
            raise BenchmarkError(f"{path}: rename it: a name has up to 32 letters, digits, '.', '-' and '_'")
        if name in path_by_name:
            raise BenchmarkError(f"{path}: a second file of labels is named {path.name}: rename one of them")
        path_by_name[name] = path
    return path_by_name
