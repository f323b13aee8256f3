"""From an alarm to the suite that measures the same of fixed questions, and the run to compare a new one with."""

from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from benchmarks.suites.registry import SUITES as KNOWN
from gateway.config.audit_request import AuditRequest
from gateway.console.matching_suite import SUITES, matching
from gateway.store import catalogue, runs, streams, tables
from gateway.streams.detectors import ShownDetector, shown_detector
from gateway.streams.settings import settings_of
from tests.support.gateway.control_plane import ControlPlane, config_in, control_plane, drifted

LTF = {"name": "ltf_test", "axes": ["gender", "race"]}
MODELS = {"qwen"}


async def alarmed(plane: ControlPlane, directory: Path, **changes: Any) -> ShownDetector:
    await drifted(plane)
    [alarm] = (await plane.http.get("/live/alarms")).json()
    [stream] = await streams.load(plane.database, [alarm["stream"]])
    shown = shown_detector(stream, settings_of(config_in(directory).drift), 1)
    return msgspec.structs.replace(shown, **changes)


async def ran(plane: ControlPlane, name: str, at: float, **options: Any) -> None:
    """A run that was asked for and finished at this time."""
    asked = {"suite": "ltf_test", "model": "qwen", "mode": "sample", "protocol": "paper", "axes": None} | options
    await runs.create(plane.database, name, asked)
    await runs.claim(plane.database, name)
    await runs.finish(plane.database, name, result="{}", report="")
    async with plane.database.begin() as connection:
        change = sa.update(tables.runs).where(tables.runs.c.id == name)
        await connection.execute(change.values(created_at=at, finished_at=at))


async def test_the_last_run_before_the_change_is_repeated(tmp_path: Path) -> None:
    """As it was asked for; not one of later, of another model or of other axes."""
    async with control_plane(tmp_path) as plane:
        await catalogue.publish(plane.database, [LTF])
        one = await alarmed(plane, tmp_path)
        change = one.since or 0.0
        await ran(plane, "older", change - 20)
        await ran(plane, "last", change - 10, axes=["gender"], limit=40, temperature=0.5)
        await ran(plane, "race", change - 5, axes=["race"])
        await ran(plane, "other", change - 5, model="another")
        await ran(plane, "later", change + 5)
        await runs.create(
            plane.database, "now", {"suite": "ltf_test", "model": "qwen", "mode": "sample", "protocol": "paper"}
        )
        match = await matching(plane.database, one, MODELS)

    assert match.suite == "ltf_test"
    assert match.earlier is not None
    assert match.earlier.id == "last"
    assert [run.id for run in match.since] == ["now", "later"]
    asked = msgspec.convert(match.request, AuditRequest)
    assert (asked.suites, asked.model, asked.protocol, asked.axes) == (["ltf_test"], "qwen", "paper", ["gender"])
    assert (asked.limit, asked.temperature) == (40, 0.5)


async def test_without_an_earlier_run_the_axis_is_asked_about(tmp_path: Path) -> None:
    """As `POST /audits` does by itself, and of nothing but the alarm's axis."""
    async with control_plane(tmp_path) as plane:
        await catalogue.publish(plane.database, [LTF])
        match = await matching(plane.database, await alarmed(plane, tmp_path), MODELS)

    assert (match.earlier, match.since) == (None, [])
    assert match.request == {"suites": ["ltf_test"], "model": "qwen", "axes": ["gender"]}


async def test_where_no_suite_matches_it_is_said_why(tmp_path: Path) -> None:
    """No such suite, none that anybody can run, not for this axis, or a model that is gone."""
    async with control_plane(tmp_path) as plane:
        one = await alarmed(plane, tmp_path)
        absent = await matching(plane.database, one, MODELS)
        await catalogue.publish(plane.database, [LTF])
        found = {
            "metric": msgspec.structs.replace(one, metric="counterfactual_length_difference"),
            "axis": msgspec.structs.replace(one, axis="age"),
            "no axis": msgspec.structs.replace(one, axis=None),
            "model": msgspec.structs.replace(one, model="other"),
        }
        said = {name: (await matching(plane.database, detector, MODELS)).why_none for name, detector in found.items()}
        gap = await matching(plane.database, msgspec.structs.replace(one, metric="favoritism_gap"), MODELS)

    assert absent.why_none == "ltf_test measures it, and no auditor has said that it can run it"
    assert said == {
        "metric": "no suite measures this of fixed questions",
        "axis": "ltf_test measures it, but not for the axis age: it has gender, race",
        "no axis": "ltf_test measures it axis by axis, and this series is of none",
        "model": "ltf_test measures it, but no upstream is known to serve other now",
    }
    assert gap.suite == "ltf_test"


def test_every_suite_named_is_one() -> None:
    """By the name in the registry, with the metric that the words promise."""
    assert {suite for suite, _ in SUITES.values()} <= set(KNOWN)
