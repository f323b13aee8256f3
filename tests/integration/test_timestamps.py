"""Samples are of the moment they are scraped at: neither page, in neither format, gives one a time of its own."""

from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from benchmarks.simulator.loading import load
from tests.integration.test_planted_live import BROTHER, SISTER
from tests.support.integration.auditing import until
from tests.support.integration.live_system import live_system

TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
SETTLED = "biasgate_audit_last_success_timestamp_seconds"
"""A time that is a value, which is something else."""


def families(page: str, content_type: str) -> list[Metric]:
    """What an exposition holds, read in the format that it says it has."""
    read = read_openmetrics if content_type.startswith("application/openmetrics-text") else read_text
    return list(read(page))


def stamped(found: list[Metric]) -> list[str]:
    """Samples with a time of their own."""
    return [sample.name for metric in found for sample in metric.samples if sample.timestamp is not None]


@pytest.mark.parametrize(("content_type", "end"), [(TEXT, ""), (OPENMETRICS, "# EOF\n")])
def test_a_timestamp_would_be_seen(content_type: str, end: str) -> None:
    """The reading that the next test rests on finds a sample's time in either format."""
    page = f"# TYPE one gauge\none 1.0\n# TYPE two gauge\ntwo 2.0 1700000000\n{end}"

    assert stamped(families(page, content_type)) == ["two"]


@pytest.mark.long
async def test_no_sample_has_a_timestamp(tmp_path: Path) -> None:
    """Gateway and auditor after live audits and a suite run, as plain text and as OpenMetrics where it is offered."""
    url = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, url, load("default")) as system, httpx.AsyncClient(trust_env=False) as http:
        await system.ask([SISTER, BROTHER] * 5)
        await system.settled()
        asked = {"suites": "stereoset", "model": "simulated", "data": "embedded", "limit": 4}
        (await system.http.post("/audits", json=asked)).raise_for_status()

        async def is_shown() -> bool:
            return f"{SETTLED}{{" in (await http.get(f"{system.auditor}/metrics")).text

        await until(is_shown, within_seconds=90)
        answers = [
            await http.get(f"{root}/metrics", headers={"accept": accept})
            for root in (system.command.root, system.auditor)
            for accept in (TEXT, OPENMETRICS)
        ]

    pages = [families(answer.text, answer.headers["content-type"]) for answer in answers]
    assert [stamped(page) for page in pages] == [[], [], [], []]
    assert answers[1].headers["content-type"].startswith("application/openmetrics-text")
    shown = [{sample.name for metric in page for sample in metric.samples} for page in pages]
    assert {"biasgate_requests_total", "biasgate_overhead_seconds_bucket", "biasgate_upstream_up"} <= shown[0] & shown[
        1
    ]
    assert {"biasgate_live_estimate", "biasgate_live_score_bucket", "biasgate_audit_estimate", SETTLED} <= shown[2]
