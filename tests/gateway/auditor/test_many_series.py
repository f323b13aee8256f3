"""The auditor's /metrics with 5,000 streams: quick to render, in both formats, and true."""

import time
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.auditor.metrics_snapshot import SnapshotReader
from gateway.store import exchanges
from gateway.store.database import Database
from gateway.telemetry.exposition import Exposition
from tests.gateway.auditor.test_metrics import stream
from tests.support.store import many_streams
from tests.support.store.made import exchange, list_streams, measurement, record

pytestmark = pytest.mark.stores("sqlite")

ACCEPTS_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


async def test_a_scrape_of_5000_series_is_quick(tmp_path: Path) -> None:
    """Under 500 ms of processor time, and the same samples in both formats, whose parsers are slow."""
    database = await Database.open(f"sqlite:///{tmp_path}/store.db")
    metrics = AuditorMetrics(many_streams.SETTINGS)
    try:
        await many_streams.fill(database)
        await metrics.renew(await SnapshotReader(database).read())
    finally:
        await database.close()
    exposition = Exposition(metrics)
    spent = []
    for _ in range(3):
        started = time.thread_time()
        page, _ = await exposition.render("")
        spent.append(time.thread_time() - started)

    assert page.count(b"\nbiasgate_live_estimate{") == 5000
    await metrics.renew(Snapshot(streams=metrics.snapshot.streams[:200]))
    page, _ = await exposition.render("")
    text = {sample for family in text_string_to_metric_families(page.decode()) for sample in _samples(family)}
    body, content_type = await exposition.render(ACCEPTS_OPENMETRICS)
    parsed = openmetrics.text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    other = {sample for family in parsed for sample in _samples(family)}
    assert content_type.startswith("application/openmetrics-text")
    assert text == other
    assert sum(name == "biasgate_live_estimate" for name, _, _ in text) == 200
    assert min(spent) < 0.5


def _samples(family: object) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
    return {(one.name, frozenset(one.labels.items()), one.value) for one in family.samples}  # type: ignore[attr-defined]


async def test_only_streams_that_moved_are_read_again(database: Database) -> None:
    """A snapshot keeps what has not changed, sees each audit and each acknowledgement, and misses none."""
    reader = SnapshotReader(database)
    for axis in ("gender", "age"):
        one = exchange()
        await exchanges.insert_batch(database, [one], {})
        await record(database, one, [measurement(0.0, axis=axis)], settings=many_streams.SETTINGS)
    before = {stream.key.axis: stream for stream in (await reader.read()).streams}
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    await record(database, one, [measurement(1.0, axis="age")], settings=many_streams.SETTINGS)
    after = {stream.key.axis: stream for stream in (await reader.read()).streams}

    assert after["gender"] is before["gender"]
    assert after["age"].state.sums.n == 2
    assert list(after.values()) == sorted(await list_streams(database), key=lambda one: one.key.axis)


async def test_labels_that_need_escaping() -> None:
    """A model's name may hold quotes, backslashes and line ends; a scraper reads what was meant."""
    hostile = 'a"b\\c\nd'
    one = stream(0.0)
    one = msgspec.structs.replace(one, key=msgspec.structs.replace(one.key, model=hostile))
    metrics = AuditorMetrics(many_streams.SETTINGS)
    metrics.snapshot = Snapshot(streams=[one])
    for accept, parse in (
        ("", text_string_to_metric_families),
        (ACCEPTS_OPENMETRICS, openmetrics.text_string_to_metric_families),
    ):
        page = (await Exposition(metrics).render(accept))[0].decode()
        models = {sample.labels.get("model") for family in parse(page) for sample in family.samples} - {None}
        assert models == {hostile}
