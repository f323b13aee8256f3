"""Which finished runs are exported: numbers that differ in how they were measured never share a series."""

from typing import Any

import pytest

from gateway.auditor.metrics_snapshot import exported
from gateway.store.runs import Run
from tests.gateway.auditor.test_metrics import run as finished


def run(run_id: str, finished_at: float, *, protocol: str = "corrected", mode: str = "sample", **options: Any) -> Run:
    return finished(id=run_id, finished_at=finished_at, protocol=protocol, mode=mode, options=options)


def ids(*finished: Run) -> list[str]:
    return [one.id for one in exported(finished)]


@pytest.mark.parametrize(
    "other",
    [
        run("other", 9.0, protocol="paper"),
        run("other", 9.0, protocol="release"),
        run("other", 9.0, mitigation="abstract"),
        run("other", 9.0, few_shot=2),
        run("other", 9.0, subset="eval"),
        run("other", 9.0, temperature=0.5),
        run("other", 9.0, data="embedded"),
        run("other", 9.0, prompts="sha256:0"),
    ],
    ids=["paper", "release", "mitigated", "with examples", "a part", "another temperature", "embedded", "own prompts"],
)
def test_another_measurement_never_takes_the_place(other: Run) -> None:
    """However new it is."""
    plain = run("plain", 1.0, data="canonical", mitigation="none", few_shot=0)

    assert ids(plain, other) == ids(other, plain) == ["plain"]


def test_alone_they_are_not_shown_either() -> None:
    """Another protocol, or a mitigation, is no series of its own; embedded items are until then, and each mode is."""
    assert ids(run("p", 1.0, protocol="paper"), run("m", 2.0, mitigation="detailed")) == []
    assert ids(run("e", 1.0, data="embedded"), run("f", 2.0, data="embedded")) == ["f"]
    assert sorted(ids(run("old", 1.0), run("new", 2.0), run("exact", 1.5, mode="exact"))) == ["exact", "new"]
