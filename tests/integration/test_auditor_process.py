"""The auditor as a process: what its endpoint says, when it is ready, that it stops, and what survives its death."""

import asyncio
import contextlib
import json
import os
import random
import signal
import threading
import time
import urllib.error
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Latency
from benchmarks.suites import registry
from gateway.auditor.process import run_auditor
from gateway.config.schema import Config
from gateway.feature import FEATURES
from gateway.store import catalogue, ledger, streams
from gateway.store.database import Database
from tests.support.integration.auditing import (
    auditing,
    config_for,
    exposes,
    fetch,
    labelled,
    metrics,
    sample,
    settled,
    until,
)
from tests.support.long import POSTGRES_LATER
from tests.support.processes import BIASGATE, free_port, running
from tests.support.simulated import running_simulator
from tests.support.store.scored import scores_of

ROUNDS, AT_ONCE = 2, 8
LONGEST_DELAY_SECONDS = 1.0
"""Most stops come while the workers connect and register."""


async def test_metrics_tell_what_the_store_holds(database: Database) -> None:
    """Every family of the contract is exposed by the auditor, with the values of the store."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)) as url:
        await sample(database, 2)
        await settled(database, audited=2)

        await until(partial(exposes, url, labelled("exchanges_total", outcome="audited", auditor="judge"), 2))
        samples = await metrics(url)
        assert json.loads(await fetch(f"{url}/livez")) == {"status": "ok"}
        ready = json.loads(await fetch(f"{url}/readyz"))
        assert ready == {"status": "ready", "checks": {"store": "ok", "suites": "ok"}}
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
                "store": "ok",
                "suites": "not reported to the gateways yet",
            }
        finally:
            may_look.set()

        async def is_ready() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                return "ready" in await fetch(f"{url}/readyz")
            return False

        await until(is_ready)
        assert "stereoset" in [suite["name"] for suite in await catalogue.read(database)]


@POSTGRES_LATER
@pytest.mark.long
async def test_stop_right_after_the_start_ends_it(database: Database) -> None:
    """Whatever auditors are opening when they are told to stop, they end soon: nothing swallows the word."""
    config, rng = config_for(database.url, "http://127.0.0.1:9"), random.Random(8)

    async def stopped_soon() -> None:
        delay = rng.uniform(0, LONGEST_DELAY_SECONDS)
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            run_auditor(config, stop=stop, on_ready=ready.set_result, features=FEATURES.values())
        )
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), f"it ends before it is ready: {running.exception()!r}"
        await asyncio.sleep(delay)
        stop.set()
        await asyncio.wait({running}, timeout=15)
        assert running.done(), f"stopped {delay:.3f} s after its start, it goes on"
        await running

    at_once = AT_ONCE if database.url.startswith("postgresql") else 1  # SQLite has one auditor
    holding_up = asyncio.create_task(hold_up_the_loop(rng))
    for _ in range(ROUNDS if at_once > 1 else AT_ONCE):
        rounds = asyncio.gather(*(stopped_soon() for _ in range(at_once)))
        waited_for: set[asyncio.Future[Any]] = {rounds, holding_up}
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        assert rounds.done(), "the time limit of the test has met the other task"
        await rounds
    holding_up.cancel()


async def hold_up_the_loop(rng: random.Random) -> None:
    """Makes events coincide that on an idle machine hardly ever do."""
    while True:
        time.sleep(rng.uniform(0, 0.01))  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0)


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


@POSTGRES_LATER
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
            await settled(database, audited=48)
            await asyncio.to_thread(second.close)
    scored = await scores_of(database, limit=1000)
    per_exchange = Counter(one.exchange.id for one in scored)
    assert per_exchange == Counter({one.id: 2 for batch in batches for one in batch})
    assert {stream.state.sums.n for stream in await streams.list_streams(database)} == {48}
