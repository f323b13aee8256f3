"""The reference of drift: a stream's own window, or the estimates of a finished suite run in the store."""

from typing import Any

import pytest

from auditors.types import Estimate
from benchmarks.run import result as results
from benchmarks.suites.common.estimation import NOT_ASSESSABLE
from benchmarks.suites.registry import SUITES
from gateway.auditor import reference
from gateway.config.schema import DriftConfig
from gateway.errors import ConfigError
from gateway.store import runs
from gateway.store.database import Database
from tests.gateway.auditor.test_metrics import finished as result
from tests.gateway.store.test_runs import OPTIONS
from tests.support.store.made import create_run, delete_run

pytestmark = pytest.mark.stores("sqlite")


def estimate(metric: str, lower: float | None, upper: float | None, **place: Any) -> Estimate:
    return Estimate(metric=metric, value=None, lower=lower, upper=upper, n=100, **{"axis": "gender", **place})


ESTIMATES = [
    estimate("group_favoritism", -0.3, 0.3, group="man"),
    estimate("group_favoritism", -0.3, 0.3, group="woman", subset="roleplay"),
    estimate("group_favoritism", None, None, group="woman"),
    estimate("mean_difference", 0.2, 0.4, group="man"),
    estimate("ss", 40.0, 60.0),
]


def test_intervals_are_those_of_comparable_metrics() -> None:
    """Whole groups with both bounds, on the 0..1 scale; what no live auditor measures is left out."""
    scales = {**SUITES["ltf_test"].scales, **SUITES["cogs"].scales}
    found = reference.intervals(ESTIMATES, scales)

    assert set(found) == {"favoritism_gap/gender/man", "representative_distance/gender/man"}
    gap, distance = found["favoritism_gap/gender/man"], found["representative_distance/gender/man"]
    assert (gap.lower, gap.upper) == pytest.approx((0.45, 0.55))
    assert (distance.lower, distance.upper) == pytest.approx((0.1, 0.2))


async def test_a_finished_run_is_read_from_the_store(database: Database) -> None:
    """The run's id, and an interval for each number of its suite that a live stream can be compared with."""
    await finished(database, ESTIMATES, suite="cogs")
    settings = await reference.drift_settings(database, DriftConfig(reference={"run": "r"}))

    assert settings.reference_run == "r"
    assert set(settings.references) == {"representative_distance/gender/man"}


async def test_runs_that_cannot_be_a_reference_are_refused(database: Database) -> None:
    """Absent, unfinished, or about something else: one line each that says which."""
    config = DriftConfig(reference={"run": "r"})
    with pytest.raises(ConfigError, match='the run "r", which the store has not'):
        await reference.drift_settings(database, config)
    await create_run(database, "r", OPTIONS)
    with pytest.raises(ConfigError, match='the run "r", which is queued: wait until it is done'):
        await reference.drift_settings(database, config)
    await delete_run(database, "r")
    await finished(database, [estimate("ss", 40.0, 60.0)], suite="crows_pairs")
    with pytest.raises(ConfigError, match="has no assessable estimate that a live auditor also makes"):
        await reference.drift_settings(database, config)


async def test_numbers_that_are_not_assessable_are_no_reference(database: Database) -> None:
    """One number is left out, the others stay; a run that is not assessable gives none."""
    silent = estimate("mean_difference", 0.1, 0.9, group="woman", extra={NOT_ASSESSABLE: "3 of 3 replies"})
    await finished(database, [*ESTIMATES, silent], suite="cogs")
    config = DriftConfig(reference={"run": "r"})
    references = (await reference.drift_settings(database, config)).references
    assert set(references) == {"representative_distance/gender/man"}
    await delete_run(database, "r")
    await finished(database, ESTIMATES, suite="cogs", not_assessable="no reply")
    with pytest.raises(ConfigError, match=r'"r" of cogs, which is not assessable \(no reply\): name another run'):
        await reference.drift_settings(database, config)


async def finished(
    database: Database, estimates: list[Estimate], *, suite: str, not_assessable: str | None = None
) -> None:
    """A run "r" that is done, with these estimates."""
    await create_run(database, "r", OPTIONS | {"suite": suite})
    await runs.claim(database, "r")
    body = result(estimates, suite=suite, not_assessable=not_assessable)
    assert await runs.finish(database, "r", result=results.encode(body).decode(), report="")
