"""A change planted during traffic raises exactly the streams it moves, through every part; a day without one, none."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from benchmarks.simulator.loading import parse
from gateway.store import streams, tables, windows
from gateway.store.database import Database
from gateway.store.windows import Window
from tests.integration.test_planted_live import BROTHER, SISTER
from tests.support.integration.live_system import LiveSystem, Place, live_system
from tests.support.integration.serving import children_of

JUDGE = '[auditors.judge]\nmodel = "simulated-judge"\n'
EMBEDDER = '[auditors.embedding]\nmodel = "simulated-embedder"\nbase_url = "{upstream}"\nmax_tokens = 400\n'
PROBING = "enabled = true\nrate = 1.0\nmax_tokens = 400\ntoken_budget_per_minute = 100_000_000\n"
COUNTERFACTUAL = f"[auditors.counterfactual]\n{PROBING}"
AFFINITY = f"[auditors.affinity]\n{PROBING}"
NO_EMBEDDING = EMBEDDER + "rate = 0.001\n"
"""The embedder of the counterfactual auditor, and hardly an audit of its own."""

DRIFT = "average_run_length = 1000\ntolerance = 0.02\nreference = {{ window = {window} }}"
CALM = {
    "favoritism": {"default": [0.1, 0.8, 0.1, 0.0]},
    "refusal": {"default": 0.05},
    "representative": {"default": 0.2},
    "counterfactual": {"noise": 0.2},
    "judge": {"sensitivity": 0.95, "false_positive_rate": 0.02},
}
"""Every kind of number varies, and no group is treated differently."""

ROUND = (SISTER, BROTHER) * 20
MEN = (SISTER, BROTHER, BROTHER, BROTHER) * 10
"""A gap's range is twice as wide: more of the prompts must be about the group whose answers change."""
MOST_ROUNDS = 15


class Change(NamedTuple):
    """What changes, who watches, and which streams must notice."""

    overrides: dict[str, Any]
    auditors: str
    raised: set[Place]
    before: dict[str, Any] = CALM
    most_rounds: int = MOST_ROUNDS
    """Until it is watched, and then until it is noticed."""


def both(metric: str, axis: str = "gender") -> set[Place]:
    return {(metric, axis, group) for group in ("man", "woman")}


FAVOURED = Change(
    {"favoritism": {"groups": {"gender": {"man": [0, 0, 0.1, 0.9]}}}},
    JUDGE + NO_EMBEDDING,
    {("favoritism", "gender", "man")} | both("favoritism_gap"),
)
CHANGES = {
    "refusals": Change(
        {"refusal": {"groups": {"gender": {"woman": 0.8}}}},
        JUDGE + NO_EMBEDDING + COUNTERFACTUAL,
        {
            ("refusal_rate", "gender", "woman"),
            ("over_protection_rate", "gender", "woman"),
            *both("refusal_rate_gap"),
            *both("over_protection_rate_gap"),
            *both("counterfactual_refusal_difference"),
        },
    ),
    "representative": Change(
        {"representative": {"identities": {"non_binary": 1.0}}},
        JUDGE + EMBEDDER,
        {
            ("representative_distance", "gender", "non_binary"),
            ("representative_distance_gap", "gender", "non_binary"),
            ("representative_bias_score", "gender", ""),
        },  # the gaps of the two others move by 0.1 on the 0..1 scale, which a reference of 100 audits cannot rule out
    ),
    "affinity": Change(
        {"cogs": {"preference": {"race": {"white": 0.98, "black": 0.01, "asian": 0.01}}}},
        JUDGE + NO_EMBEDDING + AFFINITY,
        {
            *(("selection_share", "race", group) for group in ("white", "black", "asian")),
            ("affinity_bias_score", "race", ""),
        },
        before=CALM | {"refusal": {}},
        most_rounds=3 * MOST_ROUNDS,  # each exchange is asked about one of three axes
    ),
}


async def audited(system: LiveSystem, traffic: Sequence[str]) -> None:
    """One round of traffic, until nothing waits."""
    await system.ask(traffic)
    await system.settled()


async def until_watched(
    system: LiveSystem,
    store_url: str,
    wanted: set[Place],
    traffic: Sequence[str] = ROUND,
    most_rounds: int = MOST_ROUNDS,
) -> None:
    """Traffic until all of these streams have their reference, and one more round."""
    database = await Database.open(store_url)
    try:
        for _ in range(most_rounds):
            await audited(system, traffic)
            listed = await streams.list_streams(database)
            watched = {(s.key.metric, s.key.axis, s.key.group) for s in listed if s.state.detector is not None}
            if wanted <= watched:
                break
    finally:
        await database.close()
    assert wanted <= watched
    await audited(system, traffic)


async def until_raised(
    system: LiveSystem,
    wanted: set[Place],
    traffic: Sequence[str] = ROUND,
    most_rounds: int = MOST_ROUNDS,
) -> None:
    """Traffic until all of these alarms are up, and one more round."""
    for _ in range(most_rounds):
        await audited(system, traffic)
        if wanted <= await system.alarms():
            break
    await audited(system, traffic)


@pytest.mark.timeout(900)
@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_raises_exactly_the_streams_it_moves(tmp_path: Path, name: str) -> None:
    """Silence through the references and a round more; then the streams that the change moves, and no other."""
    change = CHANGES[name]
    profile = parse({"name": name, **change.before, "drift": {"overrides": change.overrides}})
    store = f"sqlite:///{tmp_path}/store.db"
    drift = DRIFT.format(window=100)
    async with live_system(tmp_path, store, profile, auditors=change.auditors, drift=drift) as system:
        await until_watched(system, store, change.raised, most_rounds=change.most_rounds)
        assert await system.alarms() == set()
        await system.plant_the_change()
        await until_raised(system, change.raised, most_rounds=change.most_rounds)
        assert await system.alarms() == change.raised
        bystanders = set(await system.estimates()) - change.raised
        assert len(bystanders) >= 4


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_kills_of_the_auditor_change_no_alarm_and_no_sum(store_url: str, tmp_path: Path) -> None:
    """kill -9 before, at and after the change: the right alarms, and sums that are those of the measurements."""
    profile = parse({"name": "favoured", **FAVOURED.before, "drift": {"overrides": FAVOURED.overrides}})
    drift = DRIFT.format(window=100)
    async with live_system(tmp_path, store_url, profile, auditors=FAVOURED.auditors, drift=drift) as system:

        async def with_a_kill() -> None:
            asking = asyncio.create_task(system.ask(MEN))
            await asyncio.sleep(0.5)
            for pid in children_of(system.command.process.pid)["auditor"]:
                os.kill(pid, signal.SIGKILL)
            await asking

        await with_a_kill()
        await until_watched(system, store_url, FAVOURED.raised, MEN)
        assert await system.alarms() == set()
        await system.plant_the_change()
        await with_a_kill()
        await until_raised(system, FAVOURED.raised, MEN)
        assert await system.alarms() == FAVOURED.raised
        await system.command.line("is started again", count=2)
        outcomes = await system.settled()
    assert outcomes == {"audited": system.sent}
    await assert_streams_are_their_measurements(store_url, audits=system.sent)


async def assert_streams_are_their_measurements(store_url: str, *, audits: int) -> None:
    """Each exchange was measured once by each auditor that took it, and every stream holds just that."""
    database = await Database.open(store_url)
    try:
        whole = await windows.sums(database, Window(audits=10**6))
        single = [one for one in await streams.list_streams(database) if not one.key.metric.endswith("_gap")]
        assert {one.id for one in single} == set(whole)
        for stream in single:
            measured = whole[stream.id]
            assert measured.excluded == stream.state.excluded, stream.key
            for name in ("n", "w", "ww", "wy", "wyy"):
                assert getattr(measured.values, name) == pytest.approx(getattr(stream.state.sums, name)), stream.key
        async with database.read() as connection:
            done = await connection.execute(sa.select(tables.exchange_audits.c.auditor))
            per_auditor = Counter(done.scalars())
        assert per_auditor["judge"] == per_auditor["refusal"] == audits
    finally:
        await database.close()
