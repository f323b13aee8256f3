"""From an alarm to the suite that measures the same of fixed questions, and the run to compare a new one with."""

from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from gateway.config.audit_request import AuditRequest
from gateway.console.alarms import matching
from gateway.store import catalogue, runs, streams, tables
from gateway.streams.detectors import ShownDetector, shown_detector
from gateway.streams.settings import settings_of
from tests.support.gateway.control_plane import ControlPlane, config_in, control_plane, drifted
from tests.support.store.made import create_run

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
    await create_run(plane.database, name, asked)
    await runs.claim(plane.database, name)
    await runs.finish(plane.database, name, result="{}", report="")
    async with plane.database.begin() as connection:
        change = sa.update(tables.runs).where(tables.runs.c.id == name)
        await connection.execute(change.values(created_at=at, finished_at=at))


async def test_the_last_run_before_the_change_is_repeated(tmp_path: Path) -> None:
    """The match is the last run before the change of that model and axis; without a run or suite it says why."""
    async with control_plane(tmp_path) as plane:
        one = await alarmed(plane, tmp_path)
        absent = await matching(plane.database, one, MODELS)
        await catalogue.publish(plane.database, [LTF])
        first = await matching(plane.database, one, MODELS)
        of_other_axis = await matching(plane.database, msgspec.structs.replace(one, axis="age"), MODELS)
        of_gap = await matching(plane.database, msgspec.structs.replace(one, metric="favoritism_gap"), MODELS)
        change = one.since or 0.0
        await ran(plane, "older", change - 20)
        await ran(plane, "last", change - 10, axes=["gender"], limit=40, temperature=0.5)
        await ran(plane, "race", change - 5, axes=["race"])
        await ran(plane, "other", change - 5, model="another")
        await ran(plane, "later", change + 5)
        await create_run(
            plane.database, "now", {"suite": "ltf_test", "model": "qwen", "mode": "sample", "protocol": "paper"}
        )
        match = await matching(plane.database, one, MODELS)

    assert absent.why_none == "ltf_test measures it, and no auditor has said that it can run it"
    assert of_other_axis.why_none == "ltf_test measures it, but not for the axis age: it has gender, race"
    assert of_gap.suite == match.suite == "ltf_test"
    assert (first.earlier, first.since) == (None, [])
    assert first.request == {"suites": ["ltf_test"], "model": "qwen", "axes": ["gender"]}
    assert match.earlier is not None
    assert match.earlier.id == "last"
    assert [run.id for run in match.since] == ["now", "later"]
    asked = msgspec.convert(match.request, AuditRequest)
    assert (asked.suites, asked.model, asked.protocol, asked.axes) == (["ltf_test"], "qwen", "paper", ["gender"])
    assert (asked.limit, asked.temperature) == (40, 0.5)
