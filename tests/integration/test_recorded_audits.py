"""What a real auditor records of sampled exchanges: each once, whatever its model and its own faults do to them."""

from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest

from auditors.sampling import is_sampled
from benchmarks.simulator.profile import Latency, load
from gateway.auditing import upkeep
from gateway.jobs import open_queue
from gateway.store import exchanges, ledger, measurements, streams
from gateway.store.database import Database
from tests.integration.auditing import auditing, config_for, exposes, labelled, sample, settled, until
from tests.processes import free_port
from tests.simulated import running_simulator


async def test_exchanges_are_audited_once_by_each_auditor(database: Database) -> None:
    """Judge and embedding auditor both record their numbers, and the exchange moves in the ledger."""
    async with running_simulator() as upstream:
        sections = {
            "judge": {"model": "simulated-judge"},
            "embedding": {"model": "simulated-embedder", "base_url": upstream},
        }
        async with auditing(config_for(database.url, upstream, auditors=sections)):
            batch = await sample(database, 3)
            await settled(database, audited=3)
    audits = await exchanges.audits(database, [one.id for one in batch])
    assert list(audits.values()) == [{"judge": "audited", "embedding": "audited"}] * 3
    scored = await measurements.search(database, limit=1000)
    per_metric = Counter((one.auditor, one.metric) for one in scored)
    assert per_metric["judge", "favoritism"] == 6  # women and men are named in each exchange
    assert per_metric["embedding", "representative_distance"] == 24
    assert {one.inclusion_probability for one in scored} == {0.5}
    woman = next(s for s in await streams.list_streams(database) if (s.key.axis, s.key.group) == ("gender", "woman"))
    assert woman.state.sums.n == 3


async def test_orphaned_exchanges_are_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges that no job speaks of are audited all the same."""
    monkeypatch.setattr(upkeep, "SWEEP_AFTER_SECONDS", 0.0)
    async with running_simulator() as upstream:
        await sample(database, 20, announce=False)
        async with auditing(config_for(database.url, upstream)):
            await settled(database, audited=20)
    assert len(await measurements.search(database, limit=1000)) == 40


async def test_sweep_leaves_alone_what_a_job_covers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waits in the queue is not queued again, however often the sweep comes by."""
    monkeypatch.setattr(upkeep, "SWEEP_AFTER_SECONDS", 0.0)
    await sample(database, 3)
    await sample(database, 20, announce=False)
    queue = open_queue(database)
    for _ in range(3):
        await upkeep.sweep(database, queue)
    jobs = [job["ids"] for job in await queue.pending("audit_exchanges")]
    await queue.close()
    assert len(jobs) == 3
    assert sorted(map(len, jobs)) == [3, 4, 16]


async def test_unreachable_upstream_is_a_counted_failure(database: Database) -> None:
    """When no auditor gets an answer the exchange has failed, with a kind, and its groups miss a number."""
    config = config_for(database.url, f"http://127.0.0.1:{free_port()}")
    async with auditing(config) as url:
        await sample(database, 1)
        await settled(database, failed=1)
        await until(partial(exposes, url, labelled("judge_requests_total", outcome="unavailable"), 1))
    assert await measurements.search(database) == []
    moved = [stream.state for stream in await streams.list_streams(database)]
    assert all((state.sums.n, state.n_missing) == (0, 1) for state in moved)


async def test_slow_auditor_times_out(database: Database) -> None:
    """An audit that takes longer than its limit is a failure, not a hanging exchange."""
    slow = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=30.0))
    async with running_simulator(slow) as upstream:
        sections = {"judge": {"model": "simulated-judge", "timeout_seconds": 0.3}, "embedding": {"enabled": False}}
        async with auditing(config_for(database.url, upstream, auditors=sections)):
            await sample(database, 1)
            await settled(database, failed=1)


async def test_auditor_rate_multiplies_the_inclusion_probability(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor with a rate takes that share of the exchanges, by the secret; the rest is counted as sampled out."""
    monkeypatch.setenv("SAMPLING_SECRET", "0123456789abcdef")
    sections: dict[str, Any] = {
        "auditors": {"judge": {"model": "simulated-judge", "rate": 0.5}, "embedding": {"enabled": False}},
        "sampling": {"secret_env": "SAMPLING_SECRET"},
    }
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream, **sections)):
        batch = await sample(database, 20)

        async def all_settled() -> bool:
            return ("other", "queued") not in await ledger.counts(database)

        await until(all_settled)
    taken = {one.id for one in batch if is_sampled(b"0123456789abcdef", one.request_id, 0.5, purpose="judge")}
    scored = await measurements.search(database, limit=1000)
    assert 0 < len(taken) < 20
    assert {one.exchange.id for one in scored} == taken
    assert {one.inclusion_probability for one in scored} == {0.25}
    assert await ledger.counts(database) == {
        ("other", "audited"): len(taken),
        ("other", "sampled_out"): 20 - len(taken),
    }


async def test_text_is_dropped_after_the_audit(database: Database) -> None:
    """With keep_text = false bodies leave the store with the settlement; measurements stay."""
    async with running_simulator() as upstream:
        config = config_for(database.url, upstream, store={"url": database.url, "keep_text": False})
        async with auditing(config):
            batch = await sample(database, 1)
            await settled(database, audited=1)
    kept = await exchanges.get(database, batch[0].id)
    assert kept is not None
    assert (kept.request_body, kept.response_body) == (b"", b"")
    assert len(await measurements.search(database)) == 2
