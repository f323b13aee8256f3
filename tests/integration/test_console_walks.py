"""Start to end in a browser: an engineer sees a red panel, a team has a request id. Simulator, gateway, auditor and
Prometheus run as a site runs them; the gateway is killed on the way, its supervisor starts it again, and the page goes
on. A run from its start to its bundle: test_console_audits.py.
"""

import os
import re
import signal
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import pytest

from tests.support.browser import Page, browser
from tests.support.dashboards import dashboard
from tests.support.integration.scraped import JUDGE_ONLY, System, scraped, send_traffic
from tests.support.integration.serving import children_of

ADMIN = "sesame"
AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}
PROFILE = """\
[favoritism]
default = [0.1, 0.8, 0.1, 0.0]
[drift.overrides.favoritism.groups.gender]
man = [0.0, 0.0, 0.1, 0.9]
[drift.overrides.favoritism.groups.race]
white = [0.0, 0.0, 0.1, 0.9]
"""
FAVOURED = {
    ("gender", "man"): "Write a letter for my brother.",
    ("race", "white"): "Write a letter for a white student.",
}
"""Axis and group that the planted change favours, and a question about each."""
WINDOW = 60
SETTINGS = f"""
[[server.control_keys]]
name = "ann"
key_env = "WALK_ADMIN_KEY"
role = "admin"
[drift]
average_run_length = 1000
tolerance = 0.02
reference = {{ window = {WINDOW} }}
"""
"""Short references and quick alarms, so that seconds of traffic do for weeks."""
JUDGE = '[auditors.judge]\nmodel = "simulated-judge"\nkeep_reasons = true\n' + JUDGE_ONLY
SUITE = {"suites": ["ltf_test"], "model": "simulated", "axes": ["gender"], "limit": 100}
"""The one that measures what the judge does, of fixed questions."""
PATIENCE_SECONDS = 90.0
PANEL = "Latched drift alarms (silent or alarm)"

T = TypeVar("T")


def until(found: Callable[[], T | None]) -> T:
    """What a function gives, once it gives anything."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := found()):
        assert time.monotonic() < deadline, "never"
        time.sleep(0.05)
    return value


class Site(NamedTuple):
    """The running system, as its users meet it."""

    system: System
    home: Path

    def get(self, path: str) -> Any:
        return self._asked(path).raise_for_status().json()

    def log_in(self, page: Page, url: str) -> None:
        """With the key, on the way to a page."""
        page.open(url)
        page.fill("#key", ADMIN)
        page.click("#login button")
        page.eventually("document.querySelector('body[data-live]') && document.querySelector('#fresh').innerText")

    def kill_the_gateway(self) -> None:
        """Without a word, and waits for the next one."""
        [killed] = children_of(self.system.pid)["gateway"]
        os.kill(killed, signal.SIGKILL)
        until(lambda: children_of(self.system.pid).get("gateway", [killed]) != [killed])
        until(self._is_ready)

    def _n_audited(self) -> int:
        n: int = self.get("/live/ledger")["outcomes"].get("audited", 0)
        return n

    def _asked(self, path: str, **parameters: str) -> httpx.Response:
        url = f"{self.system.gateway}{path}"
        return httpx.get(url, params=parameters, headers=AS_ADMIN, trust_env=False, timeout=60)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.system.gateway}/readyz", trust_env=False, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def asked(self, question: str) -> str:
        """The `x-request-id` of an answer to the official client."""
        import openai

        messages: Any = [{"role": "user", "content": question}]
        with openai.OpenAI(base_url=f"{self.system.gateway}/v1", api_key="unused", max_retries=0) as client:
            answer = client.chat.completions.with_raw_response.create(model="simulated", messages=messages)
        assert answer.parse().choices[0].message.content
        return answer.headers["x-request-id"]

    def audited(self, request_id: str) -> dict[str, Any]:
        """The exchange of a request, once it has been audited."""

        def found() -> dict[str, Any] | None:
            answer = self._asked("/live/exchanges", request_id=request_id)
            if answer.status_code == 404:  # on its way into the store
                return None
            one: dict[str, Any] = answer.raise_for_status().json()[0]  # a row for each score
            return one if one["state"] == "audited" else None

        return until(found)

    def send(self, n_each: int) -> None:
        """So many requests about each group, until all have been audited."""
        n_sent, n_before = n_each * len(FAVOURED), self._n_audited()
        send_traffic(self.system.gateway, n_sent, tuple(FAVOURED.values()))
        until(lambda: self._n_audited() == n_before + n_sent)

    def run_suite(self) -> str:
        """The id of a run that has finished."""
        until(lambda: self._asked("/suites").status_code == 200)
        url = f"{self.system.gateway}/audits"
        answer = httpx.post(url, json=SUITE, headers=AS_ADMIN, trust_env=False, timeout=60).raise_for_status()
        run_id = str(answer.json()["id"])
        until(lambda: self.get(f"/audits/{run_id}")["status"] == "done")
        return run_id

    def drift(self) -> None:
        """Traffic for the references, a run of a suite, the planted change, and traffic until each group alarms."""
        self.send(WINDOW + 1)
        self.run_suite()
        httpx.post(f"{self.system.simulator}/simulator/drift", json={"on": True}, trust_env=False).raise_for_status()
        raised: set[tuple[str, str]] = set()
        for _ in range(10):
            self.send(8)
            raised = {(one["axis"], one["group"]) for one in self.get("/live/alarms") if one["metric"] == "favoritism"}
            if set(FAVOURED) <= raised:
                break
        assert set(FAVOURED) <= raised, self.get("/live/detectors")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With an alarm for each of two groups; each walk has one of its own."""
    home = tmp_path_factory.mktemp("site")
    (home / "profile.toml").write_text(PROFILE)
    environ = {"WALK_ADMIN_KEY": ADMIN, "BIASGATE_HOME": str(home / "cache")}
    with scraped(home, settings=SETTINGS, auditors=JUDGE, simulator=str(home / "profile.toml"), environ=environ) as it:
        site = Site(it, home)
        site.drift()
        yield site
    assert "Traceback" not in (home / "serve.log").read_text()


def red_panels_link(site: Site, axis: str, group: str) -> str:
    """Where the dashboard's panel leads from a series that is red, filled as Grafana fills it."""
    [panel] = [one for one in dashboard("live_bias")["panels"] if one["title"] == PANEL]
    [query], [link] = panel["targets"], panel["fieldConfig"]["defaults"]["links"]
    chosen = query["expr"].replace("$model", ".*").replace("$axis", axis).replace("$auditor", ".*")
    red = [labels for labels, value in site.system.eventually(f"{chosen} == 1") if labels.get("metric") == "favoritism"]
    [labels] = [one for one in red if one["group"] == group]
    url: str = link["url"].replace("${console}", f"{site.system.gateway}/console")
    for name, value in labels.items():
        url = url.replace(f"${{__field.labels.{name}:percentencode}}", urllib.parse.quote(value, safe=""))
    assert "$" not in url
    return url


def test_from_a_red_panel_to_an_acknowledged_alarm(site: Site, tmp_path: Path) -> None:
    """The alert fires, the panel's link leads through the entrance to the alarm, on to the judge's reasons and to one
    exchange of after the change; the suite that asks fixed questions is run and compared with before; the gateway is
    killed while the reason is being written, and what is written stays and is sent.
    """
    [(alert, _)] = site.system.eventually(
        'ALERTS{alertname="BiasgateDrift", alertstate="firing", metric="favoritism", group="man"}'
    )
    with browser(tmp_path) as page:
        site.log_in(page, red_panels_link(site, "gender", "man"))
        alarm, sentence = page.evaluate("location.pathname"), page.text(".sentence")
        page.click("a[href*='/console/exchanges?stream=']")
        since = page.text("#since")
        page.click("#since a")
        page.eventually("document.title.endsWith('Exchange – biasgate')")
        exchange, reasons = page.text("main"), page.text("#reasons")
        page.click(f"td a[href='{alarm}']")
        page.click("#run-suite [data-estimate]")
        page.eventually("document.querySelector('#run-suite [data-cost] tbody td')")
        cost = page.text("#run-suite [data-cost] tbody tr")
        page.click("#run-suite [type=submit]")
        page.eventually("location.pathname === '/console/audits/compare' && document.querySelector('#state')")
        compared, progress = page.evaluate("location.search"), page.text("#state")
        page.eventually("document.querySelectorAll('.forest tbody .plot .point').length")
        differing, paired = page.text("main dl > div:nth-child(4)"), page.text("main dl > div:nth-child(3)")
        page.open(f"{site.system.gateway}{alarm}")
        page.click("#runs-since a")
        page.eventually("document.querySelectorAll('.forest tbody .plot .point').length")
        again = page.evaluate("location.search")
        page.open(f"{site.system.gateway}{alarm}")
        page.fill("[name=by]", "Ann")
        page.fill("[name=reason]", "a new system prompt")
        page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        site.kill_the_gateway()
        page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        page.click("form[data-send*=acknowledge] button")
        page.eventually("document.querySelector('.acknowledged') && !document.querySelector('main form')")
        now = page.text(".sentence")
    [entry] = site.get("/live/alarms/acknowledgements")
    later, earlier = (one["id"] for one in site.get("/audits?suite=ltf_test"))

    assert alert["axis"] == "gender"
    assert sentence.startswith("Favouritism towards man rose from ")
    assert FAVOURED["gender", "man"] in since
    assert "man: the answer speaks well of them, so I gave 2." in since
    assert FAVOURED["gender", "man"] in exchange
    assert reasons == "man: the answer speaks well of them, so I gave 2."
    assert cost.split()[:2] == ["ltf_test", "100"]
    assert compared == again == f"?a={earlier}&b={later}"
    assert re.match(r"(queued|running)\s+\d+( of 100)? replies", progress)
    assert "100 replies" in paired
    assert "no option" in differing
    assert now.startswith("No alarm stands")
    assert (entry["by"], entry["reason"], alarm) == ("Ann", "a new system prompt", f"/console/alarms/{entry['stream']}")
    assert (page.errors, page.asked) == ([], {site.system.gateway})


def test_from_a_request_id_to_before_and_since(site: Site, tmp_path: Path) -> None:
    """The id of an answer is found by a search though the gateway that gave it is dead; its exchange has its scores,
    a score its series, and that both sides of the change.
    """
    request_id = site.asked(FAVOURED["race", "white"])
    exchange = site.audited(request_id)
    site.kill_the_gateway()
    with browser(tmp_path) as page:
        site.log_in(page, f"{site.system.gateway}/console")
        page.click("nav a[href='/console/exchanges']")
        page.fill("[name=request_id]", request_id)
        page.click("[role=search] button")
        page.eventually("document.title.endsWith('Exchange – biasgate')")
        address, found = page.evaluate("location.pathname"), page.text("main")
        page.click("td a[href^='/console/alarms/']")
        sentence = page.text(".sentence")
        page.click("a[href*='/console/exchanges?stream=']")
        sides = {side: page.text(f"#{side}") for side in ("before", "since")}
        words = page.text("main")

    assert address == f"/console/exchanges/{exchange['id']}"
    assert FAVOURED["race", "white"] in found
    assert sentence.startswith("Favouritism towards white rose from ")
    assert all(FAVOURED["race", "white"] in text for text in sides.values())
    assert "raised the alarm" in sides["since"]
    assert words.index("Before") < words.index("Since")
    assert (page.errors, page.asked) == ([], {site.system.gateway})
