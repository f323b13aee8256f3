"""The auditor's exports: when they are due, that one of several auditors makes them, and that a failure is told."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.console.showing import Part
from gateway.errors import BusyError, ConfigError
from gateway.features.export import auditing as scheduled
from gateway.features.export import passes
from gateway.features.export import store as exports
from gateway.features.export.auditing import Exports, read_families
from gateway.features.export.config import EXPORT
from gateway.store import counters
from gateway.store.database import Database
from gateway.telemetry.exposition import Exposition
from tests.support.store.exported import add, names, read
from tests.support.store.made import SETTINGS

pytestmark = pytest.mark.stores("sqlite")


def config(url: str, **given: Any) -> Config:
    return validate({"export": {"url": url, **given}})


async def set_back(database: Database, url: str, seconds: float) -> None:
    """As if all of the last pass had been so long ago."""
    found = await exports.acquire_lease(database, url, "clock", now=time.time())
    past = {
        name: value - seconds
        for name in ("since", "moved_at", "done_at", "tried_at")
        if (value := getattr(found, name)) is not None
    }
    await exports.write_progress(database, url, "clock", msgspec.structs.replace(found, owner=None, until=0.0, **past))


async def exposed(database: Database, of: Config) -> dict[str, float]:
    """The families of exports, by name and labels."""
    metrics = AuditorMetrics(SETTINGS)
    await metrics.renew(Snapshot(families=await read_families(database, EXPORT.of(of))))
    lines = (await Exposition(metrics).render(""))[0].decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("biasgate_export"))
    }


@pytest.mark.stores("sqlite", "postgresql")
async def test_pass_is_made_when_it_is_due(database: Database, tmp_path: Path) -> None:
    """At once, then not before the interval is over, also by another auditor or after a restart."""
    url = str(tmp_path / "export")
    of = config(url, every_hours=2)
    stop = asyncio.Event()
    await add(database, 10)
    await Exports(of, database, stop)()
    await add(database, 10)
    await asyncio.gather(*(Exports(of, database, stop)() for _ in range(3)))
    assert len(read(url, "measurements")) == 10
    assert await exposed(database, of) == {
        'biasgate_export_rows_total{dataset="measurements"}': 10,
        'biasgate_exports_total{outcome="done"}': 1,
        "biasgate_export_last_success_timestamp_seconds": pytest.approx(time.time(), abs=60),
        "biasgate_export_due_timestamp_seconds": pytest.approx(time.time() + 7200, abs=60),
    }

    with pytest.raises(BusyError):  # it was due when one looked, and another has made it since
        await passes.export_new_rows(database, url, "late", is_due=lambda progress: progress.done_at is None)
    await set_back(database, url, 7201)
    await asyncio.gather(*(Exports(of, database, stop)() for _ in range(3)))
    assert len(read(url, "measurements")) == 20
    assert (await counters.read(database))["exports", ("done",)] == 2


async def test_failure_is_told_and_tried_again(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Log, counter, due time and the console's list of parts; then it works again, and all is there."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    url = str(blocked / "export")
    of = config(url, every_hours=2)
    await add(database, 10)
    export = Exports(of, database, asyncio.Event())
    with caplog.at_level(logging.INFO):
        await export()
        await export()
    assert len([one for one in caplog.messages if one.startswith(f"not exported to {url}, tried again: ")]) == 1
    await set_back(database, url, 3 * 3600)
    found = await exposed(database, of)
    assert found['biasgate_exports_total{outcome="failed"}'] == 1
    assert found["biasgate_export_due_timestamp_seconds"] == pytest.approx(time.time() - 3600, abs=60)
    assert "biasgate_export_last_success_timestamp_seconds" not in found
    assert not await exports.read_failing(database, tried_after=time.time() - 900)  # as nobody tries any more

    await export()
    [one] = await exports.read_failing(database, tried_after=time.time() - 900)
    assert Part("export", one.error).problem
    blocked.unlink()
    await set_back(database, url, scheduled.AGAIN_SECONDS + 1)
    with caplog.at_level(logging.INFO):
        await export()
    assert f"exports to {url} work again" in caplog.messages
    assert f"exported to {url}: 10 measurements" in caplog.messages
    assert not await exports.read_failing(database, tried_after=0)
    assert len(read(url, "measurements")) == 10


async def test_end_of_the_auditor_does_not_wait_for_a_long_export(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops at the next page, and leaves the rest to the next one."""
    monkeypatch.setattr(passes, "ROWS_AT_ONCE", 20)
    url = str(tmp_path / "export")
    await add(database, 4000)
    stop = asyncio.Event()
    running = asyncio.create_task(Exports(config(url), database, stop)())
    while (await exports.read_progress(database, url)).planned is None:
        pass
    stop.set()
    await asyncio.wait_for(running, 10)
    found = await exports.read_progress(database, url)
    assert (found.measured, found.owner, found.error) == (0, None, None)
    assert not [name for name in names(url) if name.endswith(".parquet")]
    await Exports(config(url), database, asyncio.Event())()
    assert len(read(url, "measurements")) == 4000


async def test_event_loop_is_free_meanwhile(database: Database, tmp_path: Path) -> None:
    """Other work of the auditor has its turns while rows are read, encoded and written."""
    await add(database, 15_000, days=3)
    url, turns = str(tmp_path / "export"), 0
    running = asyncio.create_task(Exports(config(url), database, asyncio.Event())())
    while not running.done():
        await asyncio.sleep(0.005)
        turns += 1
    await running
    assert len(read(url, "measurements")) == 15_000
    assert turns > 10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": " "}, "export.url is empty"),
        ({"url": "sftp://me:sesame@host/x"}, r"names a user: leave the credentials"),
        ({"url": "x", "every_hours": 0}, "export.every_hours is 0"),
    ],
)
def test_address_that_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    """In one line, without the password."""
    with pytest.raises(ConfigError, match=words) as caught:
        validate({"export": given})
    assert "sesame" not in str(caught.value)
