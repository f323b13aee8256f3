"""A real Prometheus that takes native histograms reads them from the gateway, and all else from the same page."""

import asyncio
import http.server
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import Gauges, WorkerStats
from tests.support.ended_requests import end_one
from tests.support.integration.scraped import Prometheus, scraped, scraping, send_traffic

N_REQUESTS = 2000


@pytest.fixture(scope="module")
def durations() -> list[float]:
    """Seconds of requests: a fast and a slow kind, from tenths of a millisecond to minutes."""
    drawn = random.Random(5)
    return sorted(drawn.lognormvariate(drawn.choice((-6.0, 1.0)), 1.0) for _ in range(N_REQUESTS))


@pytest.fixture(scope="module")
def page(durations: list[float], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Exposition]]:
    """Port and content of a page of two workers who counted those requests."""
    directory = tmp_path_factory.mktemp("workers")
    workers = [WorkerStats(native_histograms=True), WorkerStats(native_histograms=True)]
    for number, seconds in enumerate(durations):
        end_one(
            workers[number % 2],
            duration=seconds,
            overhead=0.0 if number < 500 else 0.0002,
            first_chunk=None,
            model='m "\\\n é',
            request_id=f"r-{number}",
        )
    workers[0].surroundings = lambda: ({"queued": 3, "sampled_out": 5}, Gauges(upstream_up={"a": False, "b": True}))
    SharedCounts(workers[1], directory).flush()
    collector = GatewayCollector(SharedCounts(workers[0], directory))
    exposition = Exposition(collector, with_native=partial(collector.collect, native=True))

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, content_type = asyncio.run(exposition.render(self.headers["accept"]))
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port, exposition
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def prometheus(page: tuple[int, Exposition], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped the page."""
    with scraping(tmp_path_factory.mktemp("prometheus"), {"page": page[0]}) as prometheus:
        prometheus.eventually("up == 1")
        yield prometheus


@pytest.mark.parametrize("quantile", [0.05, 0.25, 0.5, 0.75, 0.99])
def test_quantiles_are_near(prometheus: Prometheus, durations: list[float], quantile: float) -> None:
    """Prometheus' estimate lies in the bucket of the true quantile: 9 % wide, over six orders of magnitude."""
    [(_, estimate)] = prometheus.eventually(f"histogram_quantile({quantile}, biasgate_request_duration_seconds)")
    true = durations[int(quantile * N_REQUESTS)]
    assert estimate == pytest.approx(true, rel=0.1)


def test_count_and_sum(prometheus: Prometheus, durations: list[float]) -> None:
    """They are those of the requests, zeros included."""
    [(_, count)] = prometheus.eventually("histogram_count(biasgate_overhead_seconds)")
    [(_, total)] = prometheus.eventually("histogram_sum(biasgate_request_duration_seconds)")
    [(_, zeros)] = prometheus.eventually("histogram_fraction(-1, 1e-9, biasgate_overhead_seconds)")
    assert count == N_REQUESTS
    assert total == pytest.approx(sum(durations))
    assert zeros == pytest.approx(500 / N_REQUESTS)


def test_the_rest_of_the_page_is_the_same(prometheus: Prometheus, page: tuple[int, Exposition]) -> None:
    """Every counter and gauge of the text page is there, with its labels and its value."""
    samples = [
        one for family in page[1].registry.collect() if family.type in ("counter", "gauge") for one in family.samples
    ]
    found = prometheus.eventually('{__name__=~"biasgate_.*", __name__!~".*_seconds", job="page"}')
    read = {frozenset((labels | {"job": "", "instance": ""}).items()): value for labels, value in found}
    wanted = {
        frozenset((one.labels | {"__name__": one.name, "job": "", "instance": ""}).items()): one.value
        for one in samples
    }
    assert len(wanted) >= 5
    assert wanted.items() <= read.items()


def test_of_a_running_gateway(tmp_path: Path) -> None:
    """With `server.native_histograms` the latencies that Prometheus keeps are native, the auditor's page as ever."""
    with scraped(tmp_path, settings="", server="native_histograms = true\n") as system:
        send_traffic(system.gateway, 5)
        asked = '{endpoint="/v1/chat/completions"}'
        for family in ("request_duration", "overhead", "time_to_first_chunk"):
            system.eventually(f"histogram_count(biasgate_{family}_seconds{asked}) == 5")
            [(_, median)] = system.query(f"histogram_quantile(0.5, biasgate_{family}_seconds{asked})")
            assert 0 < median < 60
        system.eventually("histogram_count(biasgate_event_loop_lag_seconds) > 0")
        system.eventually('biasgate_exchanges_total{auditor="judge", outcome="audited"} == 5')
        assert system.query("count(up == 1)")[0][1] == 2
