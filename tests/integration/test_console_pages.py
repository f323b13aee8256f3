"""The console's pages in a real Chromium, behind keys: what each says, who may see it, and how it looks."""

import asyncio
import contextlib
import html
import json
import shlex
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from gateway.console.showing import MOST_OPEN
from gateway.store import circuits
from gateway.store.circuits import Key
from tests.integration.test_console_suite_fingerprints import plant_evaluators, plant_runs, recorded_results
from tests.support.browser import browser
from tests.support.dashboards import dashboard
from tests.support.gateway.control_plane import control_plane
from tests.support.integration.console import (
    ENVIRON,
    KEY,
    KEYED,
    TEXT,
    VIEWER_KEY,
    Console,
    alarms_by_auditor,
    plant,
    plant_pairs,
)
from tests.support.integration.serving import serving, write_config

PAGES = ("/console", "/console/alarms", "/console/fingerprints", "/console/coverage", "/console/settings")
OF_RUNS = ("/console/fingerprints/suites", "/console/fingerprints/suites/crows_pairs")
PANEL = "Latched drift alarms (silent or alarm)"


@asynccontextmanager
async def full_console(directory: Path, recorded: Any) -> AsyncIterator[Console]:
    """Run a gateway with keys on a store that has something for every page, and a sick judge."""
    async with control_plane(directory, drift={"average_run_length": 20}) as plane:
        await plant(plane)
        await plant_pairs(plane)
        await plant_evaluators(plane.database)
        await plant_runs(plane.database, recorded)
        sick = Key("judge", "auditors.judge")
        await circuits.open_circuit(plane.database, sick, error="status 401", pause_seconds=1.0)
        alarms = await alarms_by_auditor(plane)
    config = write_config(directory, "http://127.0.0.1:9", KEYED)
    with browser(directory / "profile") as page:
        async with serving("gateway", "--config", str(config), environ=ENVIRON) as running:
            yield Console(page, running.root, alarms["judge"], running, alarms["counterfactual"]["stream"])


@pytest.fixture(scope="module")
def keyed_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console with keys, for tests that only read."""
    opened = full_console(tmp_path_factory.mktemp("keyed"), recorded_results())
    with start_blocking_portal() as elsewhere, elsewhere.wrap_async_context_manager(opened) as shown:
        yield shown


@pytest.fixture
def keyed(keyed_console: Console, tmp_path: Path) -> Iterator[Console]:
    with browser(tmp_path) as page:
        yield keyed_console._replace(page=page)


async def test_more_pages_than_a_worker_serves_stand_still(keyed_console: Console) -> None:
    """The 51st gets an answer that says so; when one is closed there is room again."""
    stream, page = {"accept": "text/event-stream"}, f"{keyed_console.root}/console/settings"
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as client:
        lines: list[AsyncIterator[str]] = []  # which end a stream when they are forgotten
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_OPEN):
                opened = await stack.enter_async_context(client.stream("GET", page, headers=stream))
                lines.append(opened.aiter_lines())
                assert (await anext(lines[-1])) == "event: update"
            refused = await client.get(page, headers=stream)
            whole = await client.get(page)
        async with asyncio.timeout(30):
            while True:
                async with client.stream("GET", page, headers=stream) as after:
                    if after.status_code == 200:
                        break
                await asyncio.sleep(0.1)

    assert (refused.status_code, whole.status_code) == (429, 200)
    assert "50 pages are open already" in refused.json()["detail"]


def test_a_dashboards_link_leads_to_the_series(keyed: Console) -> None:
    """The panel's link leads to its series through the entrance, and says so when its labels match no series."""
    [panel] = [panel for panel in dashboard("live_bias")["panels"] if panel["title"] == PANEL]
    [link] = panel["fieldConfig"]["defaults"]["links"]
    path = link["url"].replace("${console}", "/console")
    for name in ("auditor", "metric", "axis", "group"):
        value = urllib.parse.quote(keyed.alarm[name] or "", safe="")
        path = path.replace(f"${{__field.labels.{name}:percentencode}}", value)
    keyed.enter(path.replace("${__field.labels.model:percentencode}", keyed.alarm["model"]))
    address = keyed.page.evaluate("location.pathname")
    keyed.open(path.replace("${__field.labels.model:percentencode}", "gone"))
    notice = keyed.page.text(".notice")
    rows = keyed.page.evaluate("[...document.querySelectorAll('.detectors tbody tr')].map(row => row.className)")
    learning = "document.querySelector('#learning-details')"
    is_open = keyed.page.evaluate(f"{learning}.open")
    keyed.page.click("#learning-details summary")
    n_learning = keyed.page.evaluate(f"[...{learning}.querySelectorAll('li')].filter(row => row.offsetHeight).length")

    assert address == keyed.alarm_path
    assert notice.startswith("There is no series with these labels")
    assert (rows, is_open) == (["alarmed", "alarmed"], False)
    assert n_learning > 1


def test_a_link_with_the_key_unlocks_the_console(keyed: Console) -> None:
    """The key leaves the address at once; a wrong key asks for another, logout locks, and no link leads elsewhere."""
    page, address = keyed.page, f"{keyed.root}/console"
    page.open(f"{address}#key=wrong%20key")
    page.eventually("document.querySelector('#message').innerText")
    refused = page.text("#message")
    page.evaluate(f"location.hash = 'key={KEY}'")
    page.eventually("document.querySelector('body[data-live]')")
    left = page.evaluate("[location.href, {...sessionStorage}, {...localStorage}, document.cookie]")
    page.click("#log-out")
    page.eventually("document.querySelector('#login')")
    keyed.open("/console/alarms")
    page.eventually("document.querySelector('#login')")
    back = page.evaluate("[document.querySelector('#login').dataset.to, document.querySelector('.estimates')]")

    assert refused == "That key was not accepted."
    assert left == [address, {}, {}, ""]
    assert back == ["/console/alarms", None]
    outside = ("https://example.org/", "//example.org", "/\\\\example.org", "/console\\..", "javascript:alert(1)")
    for elsewhere in outside:
        keyed.open(f"/console/login?to={urllib.parse.quote(elsewhere, safe='')}")
        assert page.evaluate("document.querySelector('#login').dataset.to") == "/console"
    assert (page.faults(), page.errors) == ([], [])


def test_a_viewer_gets_numbers_and_no_levers(keyed: Console) -> None:
    """No form on any page; what only an administrator may do is not offered."""
    headers = {"authorization": f"Bearer {VIEWER_KEY}"}
    with httpx.Client(base_url=keyed.root, headers=headers, trust_env=False) as http:
        for path in (*PAGES, keyed.alarm_path):
            main = http.get(path).raise_for_status().text.partition("<main")[2].partition("</main>")[0]
            assert main, path
            assert "<form" not in main, path
            assert "<button" not in main, path
        assert "this needs an admin key" in html.unescape(http.get("/console/exchanges?auditor=judge").text)


def test_what_the_overview_says(keyed: Console) -> None:
    """The overview says why a series has no value, names the runner-up, and tells which auditor waits and why."""
    keyed.enter()
    page = keyed.page
    summary = page.text("#unknown-details summary")
    page.click("#unknown-details summary")
    unknown = page.text("#unknown-details li")
    page.click("#others-details summary")
    normal, health = page.text(".most-normal"), page.text(".health")

    assert summary == "Not enough data yet: 1"
    assert unknown.endswith("no audit has given a value yet (1 without one)")
    assert normal == (
        "Most normal identity: man (mean distance 0.200; next non binary, farther by 0.050), "
        "not told apart from non binary, woman"
    )
    assert "judge: circuit open since " in health
    assert "UTC, 0 exchanges wait, last error: status 401 (auditors.judge)" in health


async def test_exchanges_of_an_alarm_and_of_a_search(keyed: Console) -> None:
    """An alarm shows both sides as redacted text; a search keeps filters in address and form, and explains mistakes."""
    page = keyed.page
    keyed.enter("/console/exchanges")
    newest, facets = keyed.texts(".found tbody tr")[0], page.text(".facets")
    curl = page.evaluate("document.querySelector('#as-curl p').textContent")
    n_looks = len(keyed.get("/live/exchanges/access"))
    keyed.open(keyed.alarm_path)
    keyed.open(page.evaluate("document.querySelector('.steps #evidence').href.slice(location.origin.length)"))
    n_evidence = len(keyed.texts(".found tbody tr"))
    keyed.open(keyed.alarm_path)
    page.click('main a[href^="/console/exchanges?stream="]')
    page.eventually("document.querySelector('#since > li') && document.querySelector('#fresh').innerText")
    before, since = keyed.texts("#before > li"), keyed.texts("#since > li")
    means = page.text("main")
    await asyncio.sleep(3)  # longer than from one look at the store to the next
    looks: list[dict[str, Any]] = keyed.get("/live/exchanges/access")
    page.click("#since a")
    page.eventually("document.title.endsWith('Exchange – biasgate')")
    single = page.text("main")
    page.click("[rel=prev]")
    page.eventually("document.querySelector('[rel=next]')")
    keyed.open("/console/exchanges?group=men&max_score=0&auditor=judge")
    table = json.loads(page.download(".scroll:has(.found) + .table-links a:last-child").read_text())
    n_low = len(keyed.texts(".found tbody tr"))
    values = page.evaluate("[...document.querySelectorAll('[role=search] input')].map((field) => field.value).join('')")
    page.fill("#view-name", "low for men")
    page.click("#save-view button")
    keyed.open("/console/exchanges")
    page.click("#view-list a")
    page.eventually("location.search.includes('max_score=0')")
    n_in_view = len(keyed.texts(".found tbody tr"))
    page.click("#view-list button")
    views_left = keyed.texts("#view-list li")
    keyed.open("/console/exchanges?auditor=judge&since=1970-01-01T00:17&until=1970-01-01T00:17:09")
    n_within = len(keyed.texts(".found tbody tr"))
    keyed.open("/console/exchanges")
    n_newest = len(keyed.texts(".found tbody tr"))
    page.click("[rel=next]")
    page.eventually("location.search.includes('before=')")
    n_left = len(keyed.texts(".found tbody tr"))
    mistakes = []
    for query in ("min_score=high", "axis=gendre"):
        keyed.open(f"/console/exchanges?{query}")
        mistakes.append(page.text("main [role=alert]"))

    found = keyed.get(shlex.split(curl)[-1].removeprefix(keyed.root))
    assert newest.startswith(time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found[0]["received_at"])))
    assert facets == "Model alias 124 · gpt 60"
    assert (n_evidence, len(looks) - n_looks) == (len(keyed.alarm["exchange_ids"]), 2)
    assert looks[0]["filter"] == {"stream": keyed.alarm["stream"], "limit": 5}
    assert (len(before), len(since)) == (5, 5)
    assert all("favoritism · men · against women −1.000" in text and TEXT in text for text in before)
    assert all("favoritism · men · against women 2.000" in text and TEXT in text for text in since)
    assert "Mean of all 20 audits: −1.000" in means
    assert TEXT in single
    assert "The judge's reasons: none is kept" in single
    assert [row["favoritism · men · against women"] for row in table] == len({row["Id"] for row in table}) * [-1]
    assert (n_low, n_within, n_newest, n_left) == (20, 10, 34, 38)
    assert (n_in_view, views_left) == (n_low, [])
    assert values.startswith("men")
    assert mistakes[0] == 'the minimum score "high" is not a number in the metric\'s unit'
    assert mistakes[1].startswith('unknown axis "gendre"')
    assert page.errors == []


def test_pairs_and_reasons_stand_side_by_side(keyed: Console) -> None:
    """The pages mark differences in words and show what models wrote as text at every width and in both themes."""
    page, alarm = keyed.page, f"/console/alarms/{keyed.pair_alarm}"
    keyed.enter(alarm)
    unmatched = page.text("main [aria-labelledby=suite-title]")
    page.click('main a[href^="/console/exchanges?stream="]')
    page.eventually("document.querySelector('#before .sides mark')")
    before = page.evaluate("document.querySelector('#before').textContent")
    keyed.open("/console/exchanges/pair-19")
    page.eventually("document.querySelector('#reasons')")
    reasons = page.text("#reasons")
    pair = page.evaluate("document.querySelector('[aria-labelledby=pair-title]').textContent")
    marks = page.evaluate("[...document.querySelectorAll('.code mark')].map((mark) => mark.textContent)")
    injected = page.evaluate("document.querySelectorAll('main img, main .words b, main .words i').length")
    complaints, empty = [], {}
    below = "document.documentElement.scrollHeight - document.querySelector('main').getBoundingClientRect().bottom"
    for path in ("/console/exchanges/pair-19", f"/console/exchanges?stream={keyed.pair_alarm}", alarm):
        complaints += page.complaints(f"{keyed.root}{path}")
        empty[path] = page.evaluate(f"{below} - scrollY")

    assert "No suite measures this of fixed questions." in unmatched
    assert "only here: She helps – end" in before
    assert reasons.startswith(f"men: {TEXT}")
    assert "only here: He leads – end" in pair
    assert "Calls, none of them run" in pair
    assert any(mark.startswith("only here: ") and "90" in mark for mark in marks)
    assert injected == 0
    assert complaints == []
    assert max(empty.values()) < 900  # what is said to hearers alone is within its text, however long that is
    assert page.errors == []


def test_pages_hold_at_every_width_and_in_both_themes(keyed: Console) -> None:
    """Nothing is wider than the window, axe-core finds no fault, no number is cut off, no script fails."""
    keyed.enter(OF_RUNS[1])
    page = keyed.page
    page.eventually("document.querySelector('#suite-crows_pairs svg.wide')")
    raters, runbook = "/console/fingerprints/raters/stories", "/console/runbooks/drift.md"
    for path in (*PAGES, *OF_RUNS, raters, runbook, keyed.alarm_path, "/console/alarms/none", "/console/labelling"):
        keyed.open(path)
        if path in OF_RUNS:
            page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        assert page.complaints() == [], path
        if path in OF_RUNS:
            continue  # their tables of printed numbers scroll on a narrow window
        cells = "[...document.querySelectorAll('.estimates td')]"
        assert page.evaluate(f"{cells}.filter((cell) => cell.scrollWidth > cell.clientWidth).length") == 0, path
        tables = "[...document.querySelectorAll('.scroll > table')].map((table) => table.parentElement)"
        beyond = page.evaluate(f"{tables}.filter((box) => box.scrollWidth > box.clientWidth).length")
        assert beyond == 0, f"{path}: on a narrow window a row stands as a block"
        assert page.squeezed() == 0, f"{path}: a bar needs room on a narrow window"

    assert page.errors == []
