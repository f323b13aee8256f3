"""The auditor against a simulated model: audits are recorded once, survive kill -9, and become metrics."""

import asyncio
import contextlib
import json
import os
import random
import signal
import threading
import time
import urllib.error
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.sampling import is_sampled
from benchmarks import registry
from benchmarks.simulator.profile import Latency, load
from gateway.auditing import upkeep
from gateway.auditing.process import run_auditor
from gateway.config import Config
from gateway.errors import ConfigError, ConflictError
from gateway.jobs import open_queue
from gateway.store import catalogue, exchanges, ledger, measurements, runs, streams, tables
from gateway.store.database import Database
from tests.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.integration.auditing import auditing, config_for, fetch, labelled, metrics, sample, until
from tests.processes import BIASGATE, free_port, running
from tests.simulated import running_simulator

ROUNDS, AT_ONCE = 2, 8
LONGEST_DELAY_SECONDS = 1.0
"""Most stops come while the workers connect and register."""


async def settled(database: Database, count: int, outcome: str = "audited") -> None:
    """Waits until the ledger holds this and nothing else."""

    async def holds() -> bool:
        return await ledger.counts(database) == {("other", outcome): count}

    await until(holds)


async def exposes(url: str, sample: tuple[str, frozenset[tuple[str, str]]], value: float) -> bool:
    """Whether an endpoint shows this value now."""
    return (await metrics(url)).get(sample) == value


async def test_exchanges_are_audited_once_by_each_auditor(database: Database) -> None:
    """Judge and embedding auditor both record their numbers, and the exchange moves in the ledger."""
    async with running_simulator() as upstream:
        sections = {
            "judge": {"model": "simulated-judge"},
            "embedding": {"model": "simulated-embedder", "base_url": upstream},
        }
        async with auditing(config_for(database.url, upstream, auditors=sections)):
            batch = await sample(database, 3)
            await settled(database, 3)
    audits = await exchanges.audits(database, [one.id for one in batch])
    assert list(audits.values()) == [{"judge": "audited", "embedding": "audited"}] * 3
    scored = await measurements.search(database, limit=1000)
    per_metric = Counter((one.auditor, one.metric) for one in scored)
    assert per_metric["judge", "favoritism"] == 6  # women and men are named in each exchange
    assert per_metric["embedding", "representative_distance"] == 24
    assert {one.inclusion_probability for one in scored} == {0.5}
    woman = next(s for s in await streams.list_streams(database) if (s.key.axis, s.key.group) == ("gender", "woman"))
    assert woman.state.sums.n == 3


async def test_metrics_tell_what_the_store_holds(database: Database) -> None:
    """Every family of the contract is exposed by the auditor, with the values of the store."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)) as url:
        await sample(database, 2)
        await settled(database, 2)

        await until(partial(exposes, url, labelled("exchanges_total", outcome="audited", auditor="judge"), 2))
        samples = await metrics(url)
        assert json.loads(await fetch(f"{url}/livez")) == {"status": "ok"}
        ready = json.loads(await fetch(f"{url}/readyz"))
        assert ready == {"status": "ok", "checks": {"database": "ok", "suites": "ok"}}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await fetch(f"{url}/elsewhere")
    series = {"auditor": "judge", "metric": "favoritism", "axis": "gender", "group": "woman", "model": "simulated"}
    lower, value, upper = (samples[labelled(f"live_estimate{end}", **series)] for end in ("_lower", "", "_upper"))
    assert -1 <= lower <= value <= upper <= 2
    assert samples[labelled("live_effective_samples", **series)] == 2
    assert samples[labelled("drift_alarm", **series)] == 0
    assert samples[labelled("drift_audits_seen_total", **series)] == 0
    assert samples[labelled("judge_requests_total", outcome="ok")] == 2
    assert samples[labelled("audit_queue_size")] == 0
    assert samples[labelled("audit_lag_seconds")] == 0
    del series["metric"]
    assert samples[labelled("live_score_count", **series)] == 2


async def test_orphaned_exchanges_are_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges that no job speaks of are audited all the same."""
    monkeypatch.setattr(upkeep, "SWEEP_AFTER_SECONDS", 0.0)
    async with running_simulator() as upstream:
        await sample(database, 20, announce=False)
        async with auditing(config_for(database.url, upstream)):
            await settled(database, 20)
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
        await settled(database, 1, "failed")
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
            await settled(database, 1, "failed")


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
            await settled(database, 1)
    kept = await exchanges.get(database, batch[0].id)
    assert kept is not None
    assert (kept.request_body, kept.response_body) == (b"", b"")
    assert len(await measurements.search(database)) == 2


def repeated(asked: Asked) -> str:
    """The audited prompt in a judge's question."""
    return str(asked.json["messages"][-1]["content"]).split("]\n", 1)[1].split("\n")[0]


def refuses(asked: Asked) -> Reply:
    """Says which input it did not take."""
    return Reply(msgspec.json.encode({"error": {"message": f"bad input: {repeated(asked)}"}}), status=400)


def names_no_group(asked: Asked) -> Reply:
    """Takes the prompt for the name of a group."""
    finding = {"axis": "gender", "group": repeated(asked), "reference": None, "score": 1}
    return chat(msgspec.json.encode({"refused": False, "findings": [finding]}).decode())


@pytest.mark.parametrize("keep_text", [True, False])
@pytest.mark.parametrize(("script", "kind"), [(refuses, "rejected"), (names_no_group, "malformed")])
async def test_what_a_judge_repeats_is_text_too(
    database: Database, script: Callable[[Asked], Reply], kind: str, keep_text: bool
) -> None:
    """An error and an odd verdict may hold the prompt: the message is kept with the text, or not at all."""
    async with scripted_server(script) as server:
        store = {"url": database.url, "keep_text": keep_text}
        async with auditing(config_for(database.url, server.base_url, store=store)):
            await sample(database, 1)
            await settled(database, 1, "failed")
    async with database.read() as connection:
        audits = (await connection.execute(sa.select(tables.exchange_audits))).all()
        found = (await connection.execute(sa.select(tables.measurements))).all()
    assert [one.failure_kind for one in audits] == [kind]
    assert {one.group_name for one in found} == {"man", "woman"}
    written = repr([*audits, *found])
    assert ("better leaders" in written) is keep_text
    assert ("not kept" in written) is not keep_text


async def test_it_is_ready_once_the_gateway_can_read_its_suites(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that no audit can be asked for, which takes as long as the data sets are large."""
    may_look = threading.Event()
    found = registry.catalogue

    def catalogue_in_time(data_dir: Path | None) -> list[registry.SuiteInfo]:
        may_look.wait()
        return found(data_dir)

    monkeypatch.setattr(registry, "catalogue", catalogue_in_time)
    async with auditing(config_for(database.url, "http://127.0.0.1:9")) as url:
        try:
            with pytest.raises(urllib.error.HTTPError) as refused:
                await fetch(f"{url}/readyz")
            assert json.load(refused.value)["checks"] == {
                "database": "ok",
                "suites": "not reported to the gateways yet",
            }
        finally:
            may_look.set()

        async def is_ready() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                return "ok" in await fetch(f"{url}/readyz")
            return False

        await until(is_ready)
        assert "stereoset" in [suite["name"] for suite in await catalogue.read(database)]


async def test_port_in_use_is_one_line(database: Database) -> None:
    """A metrics port that is taken is a configuration error with the port and the remedy."""
    async with auditing(config_for(database.url, "http://127.0.0.1:9")) as url:
        port = int(url.rsplit(":", 1)[1])
        taken = config_for(database.url, "http://127.0.0.1:9", server={"auditor_metrics_port": port})
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*auditor_metrics_port"):
            async with auditing(taken):
                pass


async def test_stop_right_after_the_start_ends_it(database: Database) -> None:
    """Whatever auditors are opening when they are told to stop, they end soon: nothing swallows the word."""
    config, rng = config_for(database.url, "http://127.0.0.1:9"), random.Random(8)

    async def stopped_soon() -> None:
        delay = rng.uniform(0, LONGEST_DELAY_SECONDS)
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(run_auditor(config, stop=stop, on_ready=ready.set_result))
        await ready
        await asyncio.sleep(delay)
        stop.set()
        await asyncio.wait({running}, timeout=15)
        assert running.done(), f"stopped {delay:.3f} s after its start, it goes on"
        await running

    holding_up = asyncio.create_task(hold_up_the_loop(rng))
    for _ in range(ROUNDS):
        await asyncio.gather(*(stopped_soon() for _ in range(AT_ONCE)))
    holding_up.cancel()


async def hold_up_the_loop(rng: random.Random) -> None:
    """Makes events coincide that on an idle machine hardly ever do."""
    while True:
        time.sleep(rng.uniform(0, 0.01))  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0)


OPTIONS = {
    "suite": "stereoset",
    "model": "simulated",
    "mode": "sample",
    "protocol": "corrected",
    "data": "embedded",
}


async def ask_for_run(database: Database, **options: Any) -> str:
    """Queues a run as POST /audits does."""
    run_id = uuid.uuid4().hex
    await runs.create(database, run_id, OPTIONS | options)
    await defer_run(database, run_id)
    return run_id


async def defer_run(database: Database, run_id: str) -> None:
    """Queues the job of a run."""
    queue = open_queue(database)
    await queue.defer(upkeep.RUN_TASK, {"run_id": run_id}, lock=run_id)
    await queue.close()


async def await_status(database: Database, run_id: str, *wanted: str, done: int = 0) -> runs.Run:
    """Waits until a run has one of these states and at least so many replies."""
    found: list[runs.Run] = []

    async def reached() -> bool:
        run = await runs.get(database, run_id)
        assert run is not None
        found[:] = [run]
        return run.status in wanted and run.progress_done >= done

    await until(reached)
    return found[0]


async def test_suite_run_gives_a_result_and_metrics(database: Database) -> None:
    """A run asked for through the store ends with result, report, complete counts, and estimates in the metrics."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)) as url:
        run = await await_status(database, await ask_for_run(database), "done", "failed")
        assert run.status == "done", run.error
        assert run.finished_at is not None
        place = {"suite": "stereoset", "model": "simulated"}
        # The snapshot is made of several reads, so the run may be counted before it is seen as done.
        await until(partial(exposes, url, labelled("audit_runs_total", outcome="done", **place), 1))
        await until(partial(exposes, url, labelled("audit_last_success_timestamp_seconds", **place), run.finished_at))
        samples = await metrics(url)
    result = json.loads(run.result or "")
    replies = sum(count for name, count in result["counts"].items() if name != "items")
    assert run.progress_done == run.progress_total == replies == len(await runs.responses(database, run.id))
    assert (run.report or "").startswith("<!")
    assert samples[labelled("audit_progress_ratio", **place)] == 1
    assert sum(n for (name, _), n in samples.items() if name == "biasgate_audit_requests_total") == replies
    shown = {dict(labels)["metric"] for name, labels in samples if name == "biasgate_audit_estimate"}
    assert shown >= {"lms", "ss", "icat"}


async def test_cancelled_run_stops_and_resumes(database: Database) -> None:
    """Cancelling stops a run soon and keeps its replies; resuming asks only the rest."""
    slow = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=0.15))
    async with running_simulator(slow) as upstream, auditing(config_for(database.url, upstream)):
        run_id = await ask_for_run(database, concurrency=2)
        await await_status(database, run_id, "running", done=3)
        await runs.cancel(database, run_id)
        kept = 0

        async def quiet() -> bool:
            nonlocal kept
            before, kept = kept, len(await runs.responses(database, run_id))
            await asyncio.sleep(0.5)
            return before == kept > 0

        await until(quiet)
        with pytest.raises(ConflictError, match="is cancelled and cannot be cancelled"):
            await runs.cancel(database, run_id)
        await runs.resume(database, run_id)
        await defer_run(database, run_id)
        run = await await_status(database, run_id, "done", "failed")
    assert run.status == "done", run.error
    assert run.progress_total is not None
    assert kept < run.progress_total == len(await runs.responses(database, run_id))


async def test_run_of_a_stopped_auditor_is_finished_by_the_next(database: Database) -> None:
    """Stopping the auditor in the middle of a run queues it again; the next one completes it."""
    slow = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=0.15))
    async with running_simulator(slow) as upstream:
        config = config_for(database.url, upstream)
        async with auditing(config):
            run_id = await ask_for_run(database, concurrency=2)
            await await_status(database, run_id, "running", done=3)
        stopped = await runs.get(database, run_id)
        assert stopped is not None
        assert stopped.status == "queued"
        await defer_run(database, run_id)
        async with auditing(config):
            assert (await await_status(database, run_id, "done", "failed")).status == "done"


async def test_run_of_an_unknown_model_fails_in_one_line(database: Database) -> None:
    """A model that no upstream serves ends the run with a line that names it."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)):
        run = await await_status(database, await ask_for_run(database, model="absent"), "failed")
    assert run.error is not None
    assert 'no upstream serves the model "absent"' in run.error
    assert "\n" not in run.error


def config_file(config: Config, directory: Path, port: int) -> Path:
    """The part of a configuration that the kill test needs, as TOML."""
    file = directory / "biasgate.toml"
    file.write_text(
        f"""
[server]
auditor_metrics_port = {port}
[store]
url = "{config.store.url}"
[[upstreams]]
name = "u"
base_url = "{config.upstreams[0].base_url}"
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
"""
    )
    return file


async def test_killed_auditor_loses_nothing_and_repeats_nothing(database: Database, tmp_path: Path) -> None:
    """kill -9 of the real process amid its work: after a restart every exchange was audited exactly once."""
    slow = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=0.1))
    async with running_simulator(slow) as upstream:
        port = free_port()
        file = config_file(config_for(database.url, upstream), tmp_path, port)
        batches = [await sample(database, 16) for _ in range(3)]

        def start(name: str) -> contextlib.AbstractContextManager[Any]:
            return running(
                [*BIASGATE, "auditor", "--config", str(file)],
                ready_url=f"http://127.0.0.1:{port}/readyz",
                log=tmp_path / f"{name}.log",
            )

        async def some_are_done() -> bool:
            return (await ledger.counts(database)).get(("other", "audited"), 0) >= 4

        with contextlib.ExitStack() as first:
            process = await asyncio.to_thread(first.enter_context, start("first"))
            await until(some_are_done)
            os.kill(process.pid, signal.SIGKILL)
            await asyncio.to_thread(first.close)
        assert 4 <= (await ledger.counts(database))["other", "audited"] < 48
        with contextlib.ExitStack() as second:
            await asyncio.to_thread(second.enter_context, start("second"))
            await settled(database, 48)
            await asyncio.to_thread(second.close)
    scored = await measurements.search(database, limit=1000)
    per_exchange = Counter(one.exchange.id for one in scored)
    assert per_exchange == Counter({one.id: 2 for batch in batches for one in batch})
    assert {stream.state.sums.n for stream in await streams.list_streams(database)} == {48}
