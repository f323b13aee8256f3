"""The benchmark questions that the simulator knows: every suite's own, and the published ones that are fetched."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.datasets import published
from benchmarks.simulator.planted import table
from benchmarks.simulator.profile import ProfileError
from benchmarks.suites.registry import SUITES, datasets


def known_items(data_dir: str | None) -> Iterator[tuple[str, msgspec.Struct]]:
    """Signature and fact of everything that the answer key holds.

    Args:
        data_dir: dataset cache; None takes the default one, if anything is in it.

    Raises: ProfileError when a named cache holds no data set; DatasetError when one is damaged.
    """
    folder = None if data_dir is None else Path(data_dir)
    fetched = {name for name, source in datasets().items() if published.state(source, folder).state != "absent"}
    if folder is not None and not fetched:
        raise ProfileError(f"{folder}: no benchmark data here: run `biasgate datasets fetch NAME`, or leave it out")
    for name, planted in table.by_questions().items():
        yield from planted.facts(SUITES[name].load("embedded"))
        if name in fetched:
            yield from planted.facts(SUITES[name].load("canonical", folder))
