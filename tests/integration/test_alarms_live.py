"""A change planted during traffic raises exactly the streams it moves, though the auditor is killed again and again."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.simulator.loading import parse
from gateway.store import streams, tables, windows
from gateway.store.database import Database
from gateway.store.windows import Window
from tests.integration.test_planted_live import BROTHER, SISTER
from tests.support.integration.live_system import LiveSystem, Place, live_system
from tests.support.integration.serving import children_of

AUDITORS = (
    '[auditors.judge]\nmodel = "simulated-judge"\n[auditors.embedding]\nmodel = "simulated-embedder"\n'
    'base_url = "{upstream}"\nmax_tokens = 400\nrate = 0.001\n'
)
DRIFT = "average_run_length = 1000\ntolerance = 0.02\nreference = { window = 100 }"
CALM = {
    "favoritism": {"default": [0.1, 0.8, 0.1, 0.0]},
    "refusal": {"default": 0.05},
    "judge": {"sensitivity": 0.95, "false_positive_rate": 0.02},
}
"""Every kind of number varies, and no group is treated differently."""
CHANGE = {"favoritism": {"groups": {"gender": {"man": [0, 0, 0.1, 0.9]}}}}
RAISED: set[Place] = {
    ("favoritism", "gender", "man"),
    ("favoritism_gap", "gender", "man"),
    ("favoritism_gap", "gender", "woman"),
}
MEN = (SISTER, BROTHER, BROTHER, BROTHER) * 10
"""A gap's range is twice as wide: more of the prompts must be about the group whose answers change."""
MOST_ROUNDS = 15


async def audited(system: LiveSystem) -> None:
    """Send one round of traffic, and wait until nothing waits."""
    await system.ask(MEN)
    await system.settled()


async def until_watched(system: LiveSystem, store_url: str) -> None:
    """Send traffic until all of the streams have their reference, and one more round."""
    database = await Database.open(store_url)
    try:
        for _ in range(MOST_ROUNDS):
            await audited(system)
            listed = await streams.list_streams(database)
            watched = {(s.key.metric, s.key.axis, s.key.group) for s in listed if s.state.detector is not None}
            if watched >= RAISED:
                break
    finally:
        await database.close()
    assert watched >= RAISED
    await audited(system)


async def until_raised(system: LiveSystem) -> None:
    """Send traffic until all of the alarms are up, and one more round."""
    for _ in range(MOST_ROUNDS):
        await audited(system)
        if await system.alarms() >= RAISED:
            break
    await audited(system)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_kills_of_the_auditor_change_no_alarm_and_no_sum(store_url: str, tmp_path: Path) -> None:
    """kill -9 before, at and after the change: the right alarms, and sums that are those of the measurements."""
    profile = parse({"name": "favoured", **CALM, "drift": {"overrides": CHANGE}})
    async with live_system(tmp_path, store_url, profile, auditors=AUDITORS, drift=DRIFT) as system:

        async def with_a_kill() -> None:
            asking = asyncio.create_task(system.ask(MEN))
            await asyncio.sleep(0.5)
            for pid in children_of(system.command.process.pid)["auditor"]:
                os.kill(pid, signal.SIGKILL)
            await asking

        await with_a_kill()
        await until_watched(system, store_url)
        assert await system.alarms() == set()
        await system.plant_the_change()
        await with_a_kill()
        await until_raised(system)
        assert await system.alarms() == RAISED
        await system.command.line("is started again", count=2)
        outcomes = await system.settled()
    assert outcomes == {"audited": system.sent}
    await assert_streams_are_their_measurements(store_url, audits=system.sent)


async def assert_streams_are_their_measurements(store_url: str, *, audits: int) -> None:
    """Assert that each auditor measured each exchange that it took once, and that every stream holds just that."""
    database = await Database.open(store_url)
    try:
        whole = await windows.sums(database, Window(audits=10**6))
        single = [stream for stream in await streams.list_streams(database) if not stream.key.metric.endswith("_gap")]
        assert {stream.id for stream in single} == set(whole)
        for stream in single:
            measured = whole[stream.id]
            assert measured.excluded == stream.state.excluded, stream.key
            for name in ("n", "w", "ww", "wy", "wyy"):
                assert getattr(measured.values, name) == pytest.approx(getattr(stream.state.sums, name)), stream.key
        async with database.read() as connection:
            rows = await connection.execute(sa.select(tables.exchange_audits.c.auditor))
            per_auditor = Counter(rows.scalars())
        assert per_auditor["judge"] == per_auditor["refusal"] == audits
    finally:
        await database.close()
