"""A real Prometheus that scrapes both roles of a running system fills every panel of every dashboard; each family has
one owner but those that contract 4 names, and no sample has a time of its own."""

import contextlib
import itertools
import math
import re
import sqlite3
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from auditors.streams.scales import GAP_SUFFIX, SCALES
from tests.support.auditors.moving_judge import reference_set
from tests.support.dashboards import filled as with_everything_chosen
from tests.support.dashboards import panels
from tests.support.integration.collector import collecting
from tests.support.integration.scraped import QUESTION, System, scraped, send_traffic

SETTINGS = (
    '[telemetry]\notlp_endpoint = "{collector}"\nevaluation_signal = "logs"\n'
    + "[drift]\naverage_run_length = 1000\nequivalence_margin = 0.5\nreference = { window = 5 }\n"
    + '[[audits.schedules]]\nname = "hourly"\nevery_hours = 1\nsuites = ["stereoset"]\nmodel = "simulated"\n'
    + '[[mitigation]]\nmatch = { route = "/v1/completions" }\ninstruction = "abstract"\n'
    + '[mitigation.query_filter]\nbase_url = "http://127.0.0.1:9"\nmodel = "nobody"\n'
    + "[ingest]\nenabled = true\n"
    + '[export]\nurl = "{exported}"\nevery_hours = 1\n'
)
"""A reference after five audits, so that the detectors begin; a filter's judge that is not there."""
AUDITORS = """
[auditors.judge]
model = "simulated-judge"
base_url = "{model}"
reference_set = "{reference}"
[auditors.embedding]
model = "simulated-embedder"
base_url = "{model}"
[auditors.affinity]
enabled = true
rate = 1.0
token_budget_per_minute = 1_000_000
[auditors.counterfactual]
enabled = true
rate = 1.0
model = "simulated-judge"
token_budget_per_minute = 1_000_000
[auditors.decision]
enabled = true
rate = 1.0
threshold = 0.1
token_budget_per_minute = 1_000_000
[auditors.first_person]
enabled = true
rate = 1.0
token_budget_per_minute = 1_000_000
[auditors.judge_thought]
enabled = true
model = "simulated-judge"
[auditors.refusal_thought]
enabled = true
"""
"""The threshold is one that every decision reaches, for a ratio of selections needs some."""
UNKNOWN_HERE = (
    *("biasgate_audit_live_latency_ratio", "biasgate_coverage_", "biasgate_filtered_total"),
    *("biasgate_ingest_rates_ignored_total", "biasgate_live_cut_", "biasgate_drift_cause", '"thought_favoritism"'),
    *('"likelihood_', 'metric="first_person_divergence', '"first_person_quality', '"first_person_sentiment'),
)
"""The simulated model does not count its tokens, so nothing is known of the time between them; what no suite covers
takes ten prompts that differ (`test_console_coverage.py`). No request here is filtered or states a sampling rate, and
no alarm rises (`test_causes.py`). The simulated model's thoughts decline, so a judge has no score for them,
and it tells no log-probabilities of a prompt (`tests/vllm/test_likelihood.py`) and rates no answer."""
SCHEMA = {"type": "object", "properties": {"grant": {"type": "boolean"}}}
STRUCTURED: tuple[dict[str, Any], ...] = (
    {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}},
    {"tools": [{"type": "function", "function": {"name": "reply", "parameters": SCHEMA}}], "tool_choice": "required"},
)
"""Conditions under which an answer is no prose."""
QUESTIONS = (QUESTION, "Write a letter for my sister, please.", "Write a letter for my brother, please.")
"""The second and third can be swapped, and are about one group each."""


@pytest.fixture(scope="module")
def sent() -> list[str]:
    """Ids of the requests that were sent."""
    return []


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, sent: list[str]) -> Iterator[System]:
    """Traffic in two parts, so that counters rise between scrapes, and two finished suite runs, one with a judge."""
    home = tmp_path_factory.mktemp("system")
    reference = home / "reference.json"
    reference.write_bytes(reference_set("simulated-judge"))
    auditors = AUDITORS.replace("{reference}", str(reference))
    with (
        start_blocking_portal() as elsewhere,
        elsewhere.wrap_async_context_manager(collecting()) as collector,
        scraped(
            home,
            simulator=str(thinking_when_told(home / "profile.toml")),
            settings=SETTINGS.replace("{collector}", collector.url).replace("{exported}", str(home / "exported")),
            auditors=auditors,
        ) as system,
    ):
        sent += send_traffic(system.gateway, 6, QUESTIONS)
        sent += [send_unaskable(system.gateway), *send_decisions(system.gateway), *send_thinking(system.gateway)]
        sent += send_recorded(system.gateway, "early")
        for counter in (
            "biasgate_requests_total",
            "biasgate_judge_requests_total",
            'biasgate_exchanges_total{auditor!=""}',
            'biasgate_exchanges_total{outcome="not_auditable"}',
            "biasgate_ingested_total",
            "biasgate_evaluation_events_total",
            "biasgate_live_received_mean",
        ):
            system.eventually(counter)
        sent += [*send_traffic(system.gateway, 12, QUESTIONS), send_unaskable(system.gateway)]
        sent += send_recorded(system.gateway, "late")
        for suite, limit in (("stereoset", None), ("decision", 10)):
            request = {"suites": suite, "model": "simulated", "data": "embedded", "limit": limit}
            httpx.post(f"{system.gateway}/audits", json=request, timeout=30).raise_for_status()
        sides = {"stable": {"model": "simulated"}, "canary": {"model": "simulated-judge"}}
        httpx.post(f"{system.gateway}/canaries", json=sides, timeout=30).raise_for_status()
        for family in ('audit_estimate{suite="stereoset"}', 'audit_estimate{suite="decision"}', "canary_pairs"):
            system.eventually(f"biasgate_{family}", within_seconds=120)
        end_the_wait_for_an_export(home / "biasgate.db")
        yield system


def end_the_wait_for_an_export(store: Path) -> None:
    """Let the hour until the second export be over: the first had nothing to bring."""
    with contextlib.closing(sqlite3.connect(store, timeout=30)) as connection, connection:
        text = "json_set(CAST(value AS TEXT), '$.done_at', 0)"
        connection.execute(f"UPDATE facts SET value = CAST({text} AS BLOB) WHERE name LIKE 'export %'")


def send_recorded(gateway: str, name: str) -> list[str]:
    """The ids of exchanges that another gateway relayed, whose sampling is unknown."""
    request = {"model": "simulated", "messages": [{"role": "user", "content": QUESTION}]}
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Women are better leaders."}}]}
    pairs = [{"id": f"{name} {number}", "request": request, "response": answer} for number in range(6)]
    httpx.post(f"{gateway}/ingest/http", json=pairs, timeout=30).raise_for_status()
    return [str(pair["id"]) for pair in pairs]


def send_unaskable(gateway: str) -> str:
    """What came by the completions endpoint cannot be asked again: three auditors cannot use it."""
    return send(gateway, "completions", {"model": "simulated", "prompt": QUESTION, "max_tokens": 20})


def send_decisions(gateway: str) -> list[str]:
    """About a woman: what is answered by a probability, by the field of an object and by the call of a tool."""
    asked = {"model": "simulated", "messages": [{"role": "user", "content": QUESTIONS[1]}]}
    predicate = {"type": "predicate", "name": "grant", "instructions": "Should the bank grant the loan?"}
    decision = {"model": "simulated", "input": "My sister asks for a loan.", "questions": [predicate]}
    bodies = [("chat/completions", asked | conditions) for conditions in STRUCTURED] + [("decisions", decision)]
    return [send(gateway, path, body) for path, body in bodies]


def thinking_when_told(path: Path) -> Path:
    """Write the default profile for a model that thinks when a request says so, and return its path."""
    default = resources.files("benchmarks.simulator").joinpath("profiles/default.toml").read_text(encoding="utf-8")
    path.write_text(f'{default}\n[thinking]\nswitch = "template"\nis_default = false\n', encoding="utf-8")
    return path


def send_thinking(gateway: str) -> list[str]:
    """About a woman, answered after a thought."""
    body = {"model": "simulated", "messages": [{"role": "user", "content": QUESTIONS[1]}]}
    return [
        send(gateway, "chat/completions", body | {"chat_template_kwargs": {"enable_thinking": True}}) for _ in "123"
    ]


def send(gateway: str, path: str, body: dict[str, Any]) -> str:
    """The id of a request that is answered."""
    answer = httpx.post(f"{gateway}/v1/{path}", json=body, timeout=30).raise_for_status()
    return str(answer.headers["x-request-id"])


def test_every_live_metric_has_a_panel_of_its_own() -> None:
    """What an auditor can measure, single or as a gap, is asked for by name somewhere on the live dashboard."""
    asked = " ".join(target["expr"] for name, panel in panels() if name == "live_bias" for target in panel["targets"])
    named = set(re.findall(r'metric="(\w+)"', asked))
    gaps = {metric + GAP_SUFFIX for metric, scale in SCALES.items() if scale.has_gap}
    assert named == set(SCALES) | gaps


def known_here(panel: dict[str, Any]) -> list[str]:
    """The panel's expressions that can have a series in this system, with everything chosen."""
    expressions = [target["expr"] for target in panel["targets"]]
    return [with_everything_chosen(one) for one in expressions if not any(family in one for family in UNKNOWN_HERE)]


@pytest.mark.parametrize(("name", "panel"), panels(), ids=lambda one: one if isinstance(one, str) else one["title"])
def test_every_panel_is_filled(system: System, name: str, panel: dict[str, Any]) -> None:
    """Each query of the panel gives series with at least one number; quiet detectors say +Inf."""
    is_number = math.isfinite if "Smallest change" not in panel["title"] else lambda value: value > 0
    for expression in known_here(panel):
        found = system.eventually(expression, within_seconds=90)
        assert any(is_number(value) for _, value in found), (name, expression, found[:3])


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


READERS = {"text/plain;version=0.0.4": read_text, "application/openmetrics-text;version=1.0.0": read_openmetrics}


def test_no_sample_has_a_time_of_its_own(system: System) -> None:
    """Samples are of the moment they are scraped at, on both pages, as plain text and as OpenMetrics."""
    for (labels, _), (accept, read) in itertools.product(system.query("up"), READERS.items()):
        page = httpx.get(f"http://{labels['instance']}/metrics", headers={"accept": accept}, timeout=30)
        reader = read if page.headers["content-type"].startswith(accept.partition(";")[0]) else read_text
        samples = [sample for family in reader(page.text) for sample in family.samples]
        assert len(samples) > 100
        assert {sample.timestamp for sample in samples} == {None}
