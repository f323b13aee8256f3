"""Canaries by a real auditor against two simulated models: rolled back, promoted, held, taken up again."""

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from benchmarks.simulator.profile import Latency
from gateway.features.canary import store as canaries
from gateway.features.canary.comparison import Pair
from gateway.features.canary.store import Canary
from gateway.store.database import Database
from tests.support.auditors.scripted import Reply, scripted_server
from tests.support.integration.auditing import auditing, until
from tests.support.integration.canaries import (
    both,
    config_file,
    config_for,
    defer,
    finished,
    profile,
    refusing,
    start,
    store_questions,
)
from tests.support.integration.serving import command
from tests.support.simulated import running_simulator

pytestmark = [pytest.mark.long, pytest.mark.stores("sqlite")]


def gap(canary: Canary, metric: str, group: str = "woman") -> dict[str, object]:
    assert canary.findings is not None
    found = [one for one in canary.findings.gaps if one.metric == metric and one.group in (group, "")]
    assert len(found) == 1, canary.findings.gaps
    return msgspec.structs.asdict(found[0])


async def test_a_canary_that_declines_one_group_is_rolled_back(database: Database) -> None:
    """A model that declines half the questions about women is stopped within 300 pairs, for that reason."""
    async with both(database, profile(), refusing(0.5)) as config, auditing(config):
        await store_questions(database)
        found = await finished(database, await start(database, config))
    assert found.verdict == "rollback", found.reasons
    assert found.findings is not None
    assert found.findings.n_pairs <= 300
    worse = gap(found, "counterfactual_refusal_difference")
    assert worse["stable"] == 0.0
    assert float(str(worse["canary"])) > 0.0
    assert "refusal" in found.reasons[0]
    assert "1 / alpha = 100" in found.reasons[-1]


async def test_two_equal_models_end_with_a_promotion(database: Database) -> None:
    """Growth by the smallest difference is excluded, which the reason says."""
    async with both(database, profile(), profile()) as config, auditing(config):
        await store_questions(database)
        canary = await finished(database, await start(database, config, smallest_difference=0.3))
    assert canary.verdict == "promote", canary.reasons
    assert any("is excluded (alpha 0.01)" in reason for reason in canary.reasons)


async def test_a_canary_that_refuses_everybody_is_no_less_biased(database: Database) -> None:
    """Declining every question leaves no gap between groups, and is rolled back for its refusals."""
    declines = profile(refusal={"default": 1.0})
    async with both(database, profile(), declines) as config, auditing(config):
        await store_questions(database)
        found = await finished(database, await start(database, config))
    assert found.verdict == "rollback", found.reasons
    assert found.reasons[0].startswith("refusal_rate: 1.000 on the canary, 0.000 on stable")
    distance = gap(found, "counterfactual_distance_excess")
    assert distance["n"] == 0
    assert distance["excluded"] == {"canary: refusal": distance["n_excluded"]}


async def test_a_canary_that_cannot_be_asked_is_held(database: Database) -> None:
    """A canary whose server is gone is neither promoted nor rolled back; the reason says what failed how often."""
    async with running_simulator(profile()) as stable:
        config = config_for(database, stable, "http://127.0.0.1:9")
        async with auditing(config):
            await store_questions(database)
            found = await finished(database, await start(database, config))
    assert found.verdict == "hold"
    assert found.reasons == ["the canary model could not be asked 20 times in a row: canary: unavailable (20 pairs)"]
    assert found.findings is not None
    assert found.findings.n_compared == 0
    assert all(one.n == 0 for one in found.findings.gaps if one.metric != "failure_rate")


async def test_nothing_sampled_is_said_in_one_line(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to do when no exchange can be replayed; a slow, failing webhook still gets both verdicts."""
    answers = iter([Reply(b"", 503)])
    async with scripted_server(lambda _: next(answers, Reply(b"", delay=1.2))) as receiver:
        monkeypatch.setenv("HOOK", receiver.base_url)
        async with both(database, profile(), profile(), canary_webhook_env="HOOK") as config, auditing(config):
            none = await finished(database, await start(database, config))
            await store_questions(database, 12)
            few = await finished(database, await start(database, config))
            for canary in (none, few):
                await until(partial(_is_delivered, database, canary.id))
    assert [one.json["id"] for one in receiver.asked].count(none.id) == 2
    assert [one.json["reasons"] for one in receiver.asked if one.json["id"] == few.id] == [few.reasons]
    assert (none.verdict, few.verdict) == ("hold", "hold")
    assert none.reasons[0].startswith('no sampled exchange of "m" is stored with its text: send it traffic first')
    assert "too few: counterfactual gender/man (6), counterfactual gender/woman (6)" in few.reasons[0]


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_killed_auditor_loses_no_pair(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9 in the middle of a batch the next auditor has every pair that was kept, and draws the others."""
    slow = msgspec.structs.replace(profile(), latency=Latency(first_token_seconds=0.1))
    async with both(database, slow, slow) as config:
        await store_questions(database)
        canary_id = await start(database, config, max_pairs=40, smallest_difference=0.02)
        async with command("auditor", "--config", str(config_file(config, tmp_path))) as auditor:
            await until(partial(_has_pairs, database, canary_id, 8))
            auditor.process.kill()
            await auditor.exit_code()
        before = await canaries.pairs(database, canary_id)
        assert (await canaries.get(database, canary_id)).status == "running"
        monkeypatch.setattr(canaries, "STALE_SECONDS", 2.0)
        await asyncio.sleep(2.0)
        await defer(database, canary_id)
        async with auditing(config):
            found = await finished(database, canary_id)
    after = await canaries.pairs(database, canary_id)
    assert after[: len(before)] == before
    assert [one.number for one in after] == list(range(40))
    assert found.findings is not None
    assert found.findings.n_pairs == 40


async def test_a_cancelled_canary_ends_at_once(database: Database) -> None:
    """Cancelling ends a canary long before its models answer, and makes room for the next."""
    stuck = msgspec.structs.replace(profile(), latency=Latency(first_token_seconds=600))
    async with both(database, stuck, stuck) as config, auditing(config):
        await store_questions(database)
        first = await start(database, config)
        await until(partial(_is_running, database, first))
        await canaries.cancel(database, first)
        second = await start(database, config)
        await until(partial(_is_running, database, second), within_seconds=90)
        await canaries.cancel(database, second)
        found = await canaries.get(database, first)
    assert (found.verdict, found.reasons) == ("hold", ["it was cancelled before there was a verdict"])


async def _has_pairs(database: Database, canary_id: str, n: int) -> bool:
    return len(await canaries.pairs(database, canary_id)) >= n


async def _is_running(database: Database, canary_id: str) -> bool:
    await asyncio.sleep(0.2)
    return (await canaries.get(database, canary_id)).plan is not None


@pytest.mark.stores("sqlite", "postgresql")
@pytest.mark.parametrize("n", [0, 3])
async def test_pairs_are_kept_all_or_none(database: Database, n: int) -> None:
    """Of pairs that another auditor has added already none is kept twice, and none beside them."""
    async with both(database, profile(), profile()) as config:
        canary_id = await start(database, config)
    made = [Pair(number=number, auditor="a", axis="x", group="g") for number in range(5)]

    assert await canaries.add_pairs(database, canary_id, made[:3])
    assert not await canaries.add_pairs(database, canary_id, [*made[3:], made[n - 1 if n else 0]])
    assert [one.number for one in await canaries.pairs(database, canary_id)] == [0, 1, 2]


async def _is_delivered(database: Database, canary_id: str) -> bool:
    delivery = (await canaries.get(database, canary_id)).delivery
    return delivery is not None and delivery.status == "delivered"
