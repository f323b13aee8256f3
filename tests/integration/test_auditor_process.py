"""The auditor as a process: when it is ready, and that it stops. Its death: test_ledger_faults.py."""

import asyncio
import contextlib
import json
import random
import threading
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import registry
from gateway.auditor.process import run_auditor
from gateway.feature import FEATURES
from gateway.store import catalogue
from gateway.store.database import Database
from tests.support.integration.auditing import (
    auditing,
    config_for,
    fetch,
    until,
)
from tests.support.long import POSTGRES_LATER

ROUNDS, AT_ONCE = 2, 8
LONGEST_DELAY_SECONDS = 1.0
"""Most stops come while the workers connect and register."""


@pytest.mark.stores("sqlite")
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
