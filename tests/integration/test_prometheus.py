"""A real Prometheus scrapes both roles of a running system and finds the series that contract 4 promises."""

import time
from collections.abc import Iterator

import pytest

from tests.support.integration.scraped import System, scraped, send_traffic

N_REQUESTS = 12


@pytest.fixture(scope="module")
def sent() -> list[str]:
    """Ids of the requests that were sent."""
    return []


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, sent: list[str]) -> Iterator[System]:
    """A scraped system, after some traffic."""
    with scraped(tmp_path_factory.mktemp("system"), settings="") as system:
        sent += send_traffic(system.gateway, N_REQUESTS)
        yield system


def test_both_roles_are_scraped(system: System) -> None:
    """Prometheus reads the gateway's page and the auditor's."""
    up = system.eventually("count(up == 1) == 2")
    assert up[0][1] == 2


def test_requests_are_counted(system: System) -> None:
    """Every chat completion is in the gateway's counter, under its upstream and as complete."""
    expression = 'biasgate_requests_total{endpoint="/v1/chat/completions", outcome="complete"}'
    found = system.eventually(f"{expression} == {N_REQUESTS}")
    assert [(labels["upstream"], value) for labels, value in found] == [("sim", float(N_REQUESTS))]


@pytest.mark.parametrize("histogram", ["request_duration", "overhead", "time_to_first_chunk"])
def test_histograms_have_quantiles(system: System, histogram: str) -> None:
    """Each latency histogram has a finite, positive 99th percentile."""
    expression = f"histogram_quantile(0.99, sum by (le) (biasgate_{histogram}_seconds_bucket)) < +Inf"
    assert system.eventually(expression)[0][1] > 0


def test_upstream_is_up(system: System) -> None:
    """The health gauge names the upstream."""
    assert [(labels["upstream"], value) for labels, value in system.eventually("biasgate_upstream_up")] == [
        ("sim", 1.0)
    ]


def test_every_exchange_is_audited_and_counted(system: System) -> None:
    """At rate 1 the gateway queues each exchange, and the judge settles each: audited or, counted as well, failed."""
    by_the_gateway = 'job="biasgate-gateway", outcome="queued"'
    by_the_auditor = 'job="biasgate-auditor", auditor="judge", outcome=~"audited|failed"'
    queued = system.eventually(f"sum(biasgate_exchanges_total{{{by_the_gateway}}}) == {N_REQUESTS}")
    settled = system.eventually(f"sum(biasgate_exchanges_total{{{by_the_auditor}}}) == {N_REQUESTS}")
    assert queued[0][1] == settled[0][1] == N_REQUESTS


def test_live_estimates_have_intervals(system: System) -> None:
    """The judge's favouritism appears as an estimate between its bounds, with its labels and effective sample size."""
    labels, _ = system.eventually('biasgate_live_estimate{auditor="judge", metric="favoritism", axis="gender"}')[0]
    assert {"auditor", "metric", "axis", "group", "model"} <= set(labels)
    ordered = "biasgate_live_estimate_lower <= biasgate_live_estimate <= biasgate_live_estimate_upper"
    assert len(system.eventually(ordered)) == len(system.query("biasgate_live_estimate"))
    assert all(value > 0 for _, value in system.eventually("biasgate_live_effective_samples"))


@pytest.mark.parametrize(
    "selector",
    [
        'biasgate_request_duration_seconds_bucket{endpoint="/v1/chat/completions"}',
        'biasgate_overhead_seconds_bucket{endpoint="/v1/chat/completions"}',
        'biasgate_time_to_first_chunk_seconds_bucket{endpoint="/v1/chat/completions"}',
        'biasgate_exchanges_total{auditor="judge", outcome="audited"}',
        'biasgate_live_score_bucket{auditor="judge"}',
    ],
)
def test_numbers_lead_to_requests(system: System, sent: list[str], selector: str) -> None:
    """Latencies and what auditors counted have exemplars, each the id of a request that was sent."""
    deadline = time.monotonic() + 45
    while not (found := system.exemplars(selector)):
        assert time.monotonic() < deadline, f"no exemplar of {selector}"
        time.sleep(0.5)
    assert {labels["request_id"] for _, labels in found} <= set(sent)


def test_no_family_has_two_owners(system: System) -> None:
    """The ledger and what was cut off are counted on both sides; every other family comes from one role."""
    shared = system.eventually('count by (__name__) (count by (__name__, job) ({__name__=~"biasgate_.*"})) > 1')
    assert {labels["__name__"] for labels, _ in shared} == {
        "biasgate_exchanges_total",
        "biasgate_audits_evicted_total",
        "biasgate_audit_tokens_wasted_total",
    }
