"""A real Prometheus that scrapes every second: a test's page, or both roles of `biasgate serve` with the simulator."""

import contextlib
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import BIASGATE, free_port, running
from tests.support.prometheus_tools import program

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "rules.yml"
QUESTION = "Why are women better leaders than men?"
JUDGE_ONLY = "[auditors.embedding]\nenabled = false\n[auditors.refusal]\nenabled = false\n"


@dataclass(frozen=True)
class Prometheus:
    prometheus: str
    """Its address."""

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that the expression gives now."""
        url = f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def exemplars(self, selector: str) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Labels of each series that a selector names and of each of its exemplars of the last hour."""
        now = time.time()
        asked = urllib.parse.urlencode({"query": selector, "start": now - 3600, "end": now + 60})
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/query_exemplars?{asked}", timeout=10) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]
        return [(series["seriesLabels"], one["labels"]) for series in result for one in series["exemplars"]]

    def eventually(self, expression: str, within_seconds: float = 45.0) -> list[tuple[dict[str, str], float]]:
        """The answer to a query, once it has any."""
        deadline = time.monotonic() + within_seconds
        while not (found := self.query(expression)):
            assert time.monotonic() < deadline, f"no series for {expression}"
            time.sleep(0.5)
        return found


@dataclass(frozen=True)
class System(Prometheus):
    gateway: str
    simulator: str
    pid: int
    """Of `biasgate serve`."""


@contextlib.contextmanager
def scraping(home: Path, jobs: Mapping[str, int]) -> Iterator[Prometheus]:
    """Run Prometheus with our rules and every feature that our pages use; `jobs` gives local ports by job name."""
    port = free_port()
    configured = [
        f'  - {{ job_name: {name}, static_configs: [{{ targets: ["127.0.0.1:{target}"] }}] }}\n'
        for name, target in jobs.items()
    ]
    (home / "prometheus.yml").write_text(
        "global: { scrape_interval: 1s, evaluation_interval: 5s }\n"
        f"rule_files: [{RULES}]\n"
        "scrape_configs:\n" + "".join(configured)
    )
    scrape = [program("prometheus"), f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/tsdb"]
    scrape += [f"--web.listen-address=127.0.0.1:{port}"]
    scrape += ["--enable-feature=exemplar-storage"]
    url = f"http://127.0.0.1:{port}"
    with running(scrape, ready_url=f"{url}/-/ready", log=home / "prometheus.log"):
        yield Prometheus(url)


@contextlib.contextmanager
def scraped(
    home: Path,
    *,
    settings: str,
    server: str = "",
    auditors: str = JUDGE_ONLY,
    simulator: str = "default",
    environ: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Run a system and Prometheus until the block ends; `{model}` in `auditors` is the simulated model's address."""
    model, gateway, auditor = (free_port() for _ in range(3))
    (home / "biasgate.toml").write_text(
        f"[server]\nport = {gateway}\nauditor_metrics_port = {auditor}\n{server}"
        f'[store]\nurl = "sqlite:///{home}/biasgate.db"\n'
        f'[[upstreams]]\nname = "sim"\nbase_url = "http://127.0.0.1:{model}"\n'
        "[sampling]\nrate = 1.0\n" + auditors.replace("{model}", f"http://127.0.0.1:{model}") + settings
    )
    simulate = [*BIASGATE, "simulate", "--port", str(model), "--profile", simulator]
    serve = [*BIASGATE, "serve", "--config", str(home / "biasgate.toml")]
    urls = [f"http://127.0.0.1:{port}" for port in (model, gateway)]
    with contextlib.ExitStack() as stack:
        start = stack.enter_context
        start(running(simulate, ready_url=f"{urls[0]}/health", log=home / "simulate.log"))
        served = start(running(serve, ready_url=f"{urls[1]}/readyz", log=home / "serve.log", environ=environ))
        scraper = start(scraping(home, {"biasgate-gateway": gateway, "biasgate-auditor": auditor}))
        yield System(scraper.prometheus, urls[1], urls[0], served.pid)


def send_traffic(gateway: str, n_requests: int, questions: Sequence[str] = (QUESTION,)) -> list[str]:
    """Questions about women and men in turn, with the official client; returns the ids of the requests."""
    import openai

    ids = []
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        name = next(iter(client.models.list())).id
        for number in range(n_requests):
            asked = f"{questions[number % len(questions)]} ({number})"
            answer = client.chat.completions.with_raw_response.create(
                model=name, messages=[{"role": "user", "content": asked}]
            )
            ids.append(answer.headers["x-request-id"])
    return ids
