"""What is said of an alarm's cause while nothing can be asked, over HTTP."""

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditors.refusal import RefusalAuditor
from auditors.streams.drift import DriftSettings
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.enabled import EnabledAuditors
from gateway.auditor.part import AuditorContext
from gateway.config.schema import Config
from gateway.features.causes import store
from gateway.features.causes.passes import CausesPart, read_families
from gateway.features.causes.shown import STEPS, ShownCause, ShownPart, first_step
from gateway.features.causes.store import Work
from gateway.store import exchanges, streams
from gateway.store.database import Database
from gateway.store.tables import exchanges as table
from gateway.store.tables import facts
from tests.support.gateway.control_plane import ControlPlane, config_in, control_plane
from tests.support.simulated import running_simulator
from tests.support.store.made import audited, exchange, measurement, record

NOWHERE = "http://127.0.0.1:1"
QUIET = 60


async def test_a_cause_that_cannot_be_asked_for_says_why(tmp_path: Path) -> None:
    """Nothing begun, a server that does not answer, then text that is gone; 404 without an alarm."""
    judge = {"model": "j", "base_url": NOWHERE, "timeout_seconds": 5}
    sections = {"auditors": {"judge": judge, "embedding": {"enabled": False}}}
    config = config_in(tmp_path, **sections)
    async with control_plane(tmp_path, **sections) as plane:
        assert (await plane.http.get("/live/alarms/0/cause")).status_code == 404
        for number in range(QUIET + 30):
            await audited(plane.database, measurement(0.0 if number < QUIET else 2.0))
        [alarm] = (await plane.http.get("/live/alarms")).json()
        path = f"/live/alarms/{alarm['stream']}/cause"
        cause = (await plane.http.get(path)).json()
        assert (cause["status"], cause["parts"]) == ("pending", [])
        assert "no auditor has looked at it yet" in cause["sentence"]

        await step(plane, config)
        cause = (await plane.http.get(path)).json()
        assert (cause["status"], cause["shift"]) == ("pending", None)
        assert cause["reason"] == "the served model, or the judge, does not answer"
        assert cause["asked"] > 0

        await plane.database.change_rows(sa.delete(facts).where(facts.c.name.like("cause%")))
        await plane.database.change_rows(sa.update(table).values(request_body=None))
        await step(plane, config)
        cause = (await plane.http.get(path)).json()
        assert cause["status"] == "cannot_be_told"
        assert cause["reason"].startswith("the text of 0 exchanges from before the change is stored")
        assert cause["sentence"] in (await plane.http.get(f"/console/alarms/{alarm['stream']}")).text


async def test_audits_of_before_and_since_are_told_apart(database: Database) -> None:
    """Exchanges that came after the alarm are since; those about another group of the axis lie beside."""
    for number in range(QUIET + 60):
        await audited(database, measurement(0.0 if number < QUIET else 2.0), measurement(1.0, group="man"))
    alarms = await store.alarmed(database)
    [stream] = [each for each in await streams.load(database, list(alarms)) if each.key.metric == "favoritism"]
    audits = await store.newest(database, [stream.id])
    n_after = len(await store.after(database, [stream.id], [], alarms[stream.id]))
    assert (len(audits), {audit.weight for audit in audits}) == (QUIET + 60, {2.0})
    assert 0 < n_after < 60
    beside = await store.beside(database, stream.key, audits[0].at, audits[9].at)
    assert {audit.score for audit in beside} == {1 / 3, 2 / 3}
    work = Work(alarm_since=alarms[stream.id], metric="favoritism")
    await store.write(database, stream.id, work)
    assert await store.of_alarm(database, stream.id, alarms[stream.id]) == work
    assert await store.of_alarm(database, stream.id, alarms[stream.id] + 1.0) is None


def test_the_part_that_surely_makes_most_says_what_to_do_first() -> None:
    """No step follows from a part of unknown sign, or from less than half of the shift."""
    model, sure, unsure = (-0.3, -0.4, -0.2), (-0.7, -0.8, -0.6), (-0.7, -1.7, 0.3)
    for application, step in ((sure, STEPS["application"]), (unsure, ""), (model, "")):
        parts = [ShownPart("model", *model), ShownPart("application", *application)]
        assert first_step(ShownCause(status="told", shift=-1.0, parts=parts)) == step


async def test_one_new_answer_tells_of_both_sides_of_a_gap(tmp_path: Path) -> None:
    """The refusals of women rise: each exchange is asked once, and scored for the group or the others it is about."""
    auditor = RefusalAuditor()
    async with running_simulator() as url:
        upstreams = [{"name": "u", "base_url": url, "models": ["simulated"]}]
        sections = {"upstreams": upstreams, "auditors": {"refusal": {"enabled": True}, "embedding": {"enabled": False}}}
        async with control_plane(tmp_path, **sections) as plane:
            for number in range(360):
                names = ["women", "men", "women and men"][number % 3]
                text = "I cannot help with that." if number >= 240 and names == "women" else "Here is a song for you."
                question = {"messages": [{"role": "user", "content": f"Write a song about {names}."}]}
                answer = {"choices": [{"message": {"role": "assistant", "content": text}}]}
                bodies = {"request_body": json.dumps(question).encode(), "response_body": json.dumps(answer).encode()}
                one = exchange(model="simulated", served_model="simulated", **bodies)
                await exchanges.insert_batch(plane.database, [one], {(one.stratum, "queued"): 1})
                await record(plane.database, one, await auditor.audit(one), auditor="refusal")
            series = {"auditor": "refusal", "metric": "refusal_rate_gap", "axis": "gender", "group": "woman"}
            stream = await streams.find(plane.database, series) or ""
            for _ in range(12):
                await step(plane, config_in(tmp_path, **sections))
            since = (await store.alarmed(plane.database))[stream]
            work = await store.of_alarm(plane.database, stream, since)
            cause = (await plane.http.get(f"/live/alarms/{stream}/cause")).json()
            page = (await plane.http.get(f"/console/alarms/{stream}")).text
            family = (await read_families(plane.database))[0]
    rows = work.answered if work is not None else []
    assert (cause["status"], cause["asked"]) == ("told", len(rows))
    assert all((side.anew is None) == (side.then is None) for row in rows for side in (row, row.rest))
    assert any(None not in (row.then, row.rest.then) for row in rows)
    assert 0.3 < cause["shift"] == pytest.approx(sum(part["value"] for part in cause["parts"]))
    assert "of the gap between woman and the others, " in cause["sentence"] in page
    assert "refusal_rate_gap" in {sample.labels["metric"] for sample in family.samples}


async def step(plane: ControlPlane, config: Config) -> None:
    """Take one step of an auditor that has just started."""
    limiters = ConcurrencyLimiters(config.audits)
    enabled = EnabledAuditors(config, limiters, b"secret")
    context = AuditorContext(
        config=config,
        database=plane.database,
        queue=plane.queue,
        enabled_auditors=enabled,
        limiters=limiters,
        settings=DriftSettings(),
        secret=b"secret",
        stop=asyncio.Event(),
    )
    try:
        await CausesPart(context).step()
    finally:
        await enabled.close()
        await limiters.aclose()
