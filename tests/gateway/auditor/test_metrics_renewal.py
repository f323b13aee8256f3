"""When the auditor's metrics are read anew: for a scrape, once for all that come together, and never for long."""

import asyncio
import socket
import time

import pytest

from auditors.streams.drift import DriftSettings
from gateway.auditor import metrics_snapshot
from gateway.auditor.metrics import AuditorMetrics
from gateway.auditor.metrics_snapshot import MetricsRenewal, SnapshotReader
from gateway.store.database import Database
from tests.support.integration.auditing import sample

pytestmark = pytest.mark.stores("sqlite")


async def test_a_scrape_finds_what_the_store_has_now(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read a moment ago is not read again; what is older is."""
    metrics = AuditorMetrics(DriftSettings())
    renewal = MetricsRenewal(SnapshotReader(database), metrics)
    await asyncio.gather(*(renewal.for_a_scrape() for _ in range(5)))
    first = metrics.snapshot
    assert first.queue_size == 0
    await sample(database, 3, announce=False)
    await renewal.for_a_scrape()
    assert metrics.snapshot is first
    monkeypatch.setattr(metrics_snapshot, "OLDEST_SECONDS", 0.0)
    await renewal.for_a_scrape()
    assert metrics.snapshot.queue_size == 3


async def test_a_store_that_is_away_holds_up_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses is logged, one that says nothing is waited for until the patience ends; the numbers stay."""
    refusing = Database("postgresql://nobody@127.0.0.1:9/nothing", texts=None)  # type: ignore[arg-type]
    metrics = AuditorMetrics(DriftSettings())
    before = metrics.snapshot
    await MetricsRenewal(SnapshotReader(refusing), metrics).for_a_scrape()
    await refusing.close()

    monkeypatch.setattr(metrics_snapshot, "PATIENCE_SECONDS", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))  # nobody accepts
    host, port = listener.getsockname()
    silent = Database(f"postgresql://nobody@{host}:{port}/nothing", texts=None)  # type: ignore[arg-type]
    renewal = MetricsRenewal(SnapshotReader(silent), metrics)
    began = time.monotonic()
    await renewal.for_a_scrape()
    assert 0.1 < time.monotonic() - began < 4.0  # of the 5 s that a connection may take
    assert metrics.snapshot is before
    await renewal.now()
    listener.close()
    await silent.close()
