"""A scrape of a gateway with many models: whole families, and the event loop goes on with live traffic meanwhile."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import LABEL_SETS_PER_PIECE, GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import WorkerStats
from tests.support.ended_requests import end_one
from tests.support.loop_turns import with_turns

N_MODELS = 12 * LABEL_SETS_PER_PIECE + 1
TEXT, OPENMETRICS = "text/plain", "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def exposition() -> Exposition:
    stats = WorkerStats()
    for number in range(N_MODELS):
        end_one(stats, model=f"model-{number}")
    return Exposition(GatewayCollector(SharedCounts(stats, None)))


@pytest.mark.parametrize(
    ("accept", "parse"),
    [(TEXT, text_string_to_metric_families), (OPENMETRICS, openmetrics.text_string_to_metric_families)],
)
async def test_families_are_whole(
    exposition: Exposition, accept: str, parse: Callable[[str], Iterable[Metric]]
) -> None:
    """Each family is on the page once, with all samples that were collected."""
    body, _ = await exposition.render(accept)
    found = [*parse(body.decode())]

    names = [family.name for family in found]
    assert len(set(names)) == len(names)
    assert body.count(b"# HELP biasgate_overhead_seconds ") == body.count(b"# TYPE biasgate_overhead_seconds ") == 1
    samples = {(one.name, *sorted(one.labels.items())): one.value for family in found for one in family.samples}
    collected = [one for family in exposition.registry.collect() for one in family.samples]
    assert samples == {(one.name, *sorted(one.labels.items())): one.value for one in collected}
    assert sum(name[0] == "biasgate_requests_total" for name in samples) == N_MODELS


@pytest.mark.parametrize("accept", [TEXT, OPENMETRICS])
async def test_the_loop_has_its_turns(exposition: Exposition, accept: str) -> None:
    """A page that takes a tenth of a second is made in many steps, between which requests are relayed."""
    _, turns = await with_turns(exposition.render(accept))
    assert turns >= 10
