"""The console in a real Chromium, in front of a real gateway: its pages, what is live in them, and who may see them."""

import asyncio
import contextlib
import html
import json
import shlex
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from auditors.audit_texts import LONGEST_CHARS, Answers, KeptAnswer, KeptCall, Reason
from auditors.streams.drift import DriftSettings
from gateway.console.showing import MOST_OPEN
from gateway.store import auditors_seen, circuits, exchanges
from gateway.store.circuits import Key
from tests.integration.test_console_suite_fingerprints import plant_evaluators, plant_runs, recorded_results
from tests.support.browser import Page, browser
from tests.support.dashboards import dashboard
from tests.support.gateway.control_plane import ControlPlane, audit_identities, control_plane, drifted, publish_suites
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.integration.serving import Command, command, serving, write_config
from tests.support.store.made import exchange, left_beside, measurement, record

KEY, VIEWER_KEY = "sesame", "sesame-to-look"
KEYED = (
    'admin_key_env = "CONSOLE_ADMIN_KEY"\n'
    '[[server.control_keys]]\nname = "dashboard"\nkey_env = "CONSOLE_VIEWER_KEY"\nrole = "viewer"\n'
)
ENVIRON = {"CONSOLE_ADMIN_KEY": KEY, "CONSOLE_VIEWER_KEY": VIEWER_KEY}
HOSTILE = "<img src=x onerror=alert(1)> Who leads, asks ann@example.org?"
"""Markup and an address, as a client may write them."""
TEXT = "<img src=x onerror=alert(1)> Who leads, asks [email]?"
PAGES = ("/console", "/console/alarms", "/console/fingerprints", "/console/coverage", "/console/settings")
OF_RUNS = ("/console/fingerprints/suites", "/console/fingerprints/suites/crows_pairs")
PANEL = "Latched drift alarms (silent or alarm)"


class Console(NamedTuple):
    page: Page
    root: str
    alarm: dict[str, Any]
    """The judge's alarm, as the API gives it."""
    running: Command
    pair_alarm: str = ""
    """Stream of the alarm of the auditor `counterfactual`."""

    @property
    def alarm_path(self) -> str:
        return f"/console/alarms/{self.alarm['stream']}"

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.root}{path}", headers={"authorization": f"Bearer {KEY}"}, trust_env=False).json()

    def open(self, path: str) -> None:
        self.page.open(f"{self.root}{path}")

    def texts(self, selector: str) -> list[str]:
        """Return what a reader sees of each such element."""
        texts: list[str] = self.page.evaluate(f"[...document.querySelectorAll('{selector}')].map((it) => it.innerText)")
        return texts

    def enter(self, path: str = "/console", key: str = KEY) -> None:
        """Log in on the way to a page."""
        self.open(path)
        self.page.eventually("document.querySelector('#login')")
        self.page.fill("#key", key)
        self.page.click("#login button")
        self.page.eventually("document.querySelector('body[data-live]') && document.querySelector('#fresh').innerText")


async def plant(plane: ControlPlane) -> None:
    """Store an alarm, audits under identities, and a run that waits."""
    await publish_suites(plane)
    await drifted(plane, text=HOSTILE)
    for number in range(3):
        await audit_identities(plane, number, {"man": 0.2, "woman": 0.3, "non_binary": 0.25})
    await audit_identities(plane, 1, {"white": None}, axis="race")
    request = {"suites": "stereoset", "model": "qwen", "data": "embedded"}
    (await plane.http.post("/audits", json=request)).raise_for_status()


async def plant_pairs(plane: ControlPlane) -> None:
    """Store pairs of answers whose difference changed, and what two auditors left in words, hostile and long."""
    calls = ('{"who": "his <b>work</b>", "mark": 90}', '{"mark": 70, "who": "x"}')
    first, second = ([KeptCall("grade", arguments)] for arguments in calls)
    answers = Answers(
        axis="gender",
        group="men",
        reference="women",
        words_swapped=1,
        question=HOSTILE.replace("Who", "Which of them"),
        asked=[KeptAnswer(text=f"{HOSTILE} He leads.\u202e"), KeptAnswer(text="", calls=first)],
        swapped=[KeptAnswer(text=f"{HOSTILE} She helps.\u202e"), KeptAnswer(text="x" * LONGEST_CHARS, calls=second)],
    )
    about = {"metric": "counterfactual_length_difference", "group": "men", "reference": "women", "judge": None}
    settings = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
    body = b'{"messages": [{"role": "user", "content": "Who leads, asks <i>ann@example.org</i>?"}]}'
    for number in range(60):
        pair = f"pair-{number}"
        sampled = exchange(id=pair, request_id=pair, received_at=900.0 + number, request_body=body)
        score = measurement(-1.0 if number < 20 else 1.0, auditor="counterfactual", **about)
        await exchanges.insert_batch(plane.database, [sampled], {("other", "queued"): 1})
        await record(plane.database, sampled, [score], auditor="counterfactual", settings=settings)
        if number in (19, 59):
            await left_beside(plane.database, sampled.id, "counterfactual", answers)
            await left_beside(plane.database, sampled.id, "judge", Reason(text=f"men: {HOSTILE}\u202e"))


async def alarms_by_auditor(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {alarm["auditor"]: alarm for alarm in (await plane.http.get("/live/alarms")).json()}


@asynccontextmanager
async def console(directory: Path, settings: str = "") -> AsyncIterator[Console]:
    """Run a gateway without keys on a planted store, with a page that is still blank."""
    async with control_plane(directory, drift={"average_run_length": 20}) as plane:
        await plant(plane)
        alarm = (await alarms_by_auditor(plane))["judge"]
    config = write_config(directory, "http://127.0.0.1:9", settings)
    with browser(directory / "profile") as page:
        async with serving("gateway", "--config", str(config)) as running:
            yield Console(page, running.root, alarm, running)


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


async def test_an_alarm_is_understood_and_acknowledged(tmp_path: Path) -> None:
    """From the overview to the alarm, one sentence says what happened; acknowledged by name and reason, on record."""
    drift = "[drift]\naverage_run_length = 20\ntolerance = 0.0\nreference = { window = 20 }\n"
    async with console(tmp_path, drift) as shown:
        page = shown.page
        shown.open("/console")
        title = page.evaluate("document.title")
        page.click(".alarms .action")
        page.eventually("location.pathname.startsWith('/console/alarms/')")
        address = page.evaluate("location.pathname")
        sentence = page.text(".sentence")
        page.eventually("document.querySelector('form') && document.querySelector('#fresh').innerText")
        page.click("form button")  # without a name and a reason the browser sends nothing
        page.fill("[name=by]", "Ann")
        page.fill("[name=reason]", "<b>seen</b>")
        page.click("[name=accept_new_level][value=true]")
        page.click("form button")
        page.eventually("!document.querySelector('main form') && document.querySelector('.acknowledged')")
        row, now, lowered = (page.text(selector) for selector in (".acknowledged li", ".sentence", "#lowered"))
        legend = page.text("#live-figure")
        [detector] = shown.get("/live/detectors?auditor=judge")
        [entry] = shown.get("/live/alarms/acknowledgements")

    assert title == "(1) Overview – biasgate"
    assert address == shown.alarm_path
    assert sentence == (
        "Favouritism towards men rose from −1.00 to 2.00 (n 20, then 40, 95 % interval 1.53 to 2.00) "
        "since 1970-01-01 00:17 UTC; whether the model changed is not known."
    )
    assert row.endswith("Ann accepted the new level: <b>seen</b>")
    assert now == "No alarm stands: the detector learns its reference (0 of 20 audits)."
    assert (lowered, "reference: where the mean was learned to lie" in legend) == (sentence, True)
    assert (detector["state"], detector["reference_n"]) == ("learning", 0)
    assert (entry["by"], entry["reason"], entry["accept_new_level"]) == ("Ann", "<b>seen</b>", True)
    assert page.errors == []


async def test_only_what_changes_is_replaced(tmp_path: Path) -> None:
    """A refresh keeps what a person typed, unfolded and focused, and renews the rest; a late form is refused."""
    async with console(tmp_path) as shown:
        page = shown.page
        with browser(tmp_path / "other") as other:
            other.open(f"{shown.root}{shown.alarm_path}")
            other.click("[name=reason]")
            other.press("half a")
            shown.open("/console")
            page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
            page.click("#unknown-details summary")
            page.click("#others-details summary")
            page.evaluate("window.kept = document.querySelector('#live-suites').firstElementChild; 0")
            page.evaluate("document.querySelector('.estimates a').focus(); 0")
            focused = page.evaluate("document.activeElement.href")
            async with control_plane(tmp_path, drift={"average_run_length": 20}) as plane:
                await audit_identities(plane, 9, {"white": None, "man": 0.1}, axis="race")
                acknowledging = f"/live/alarms/{shown.alarm['stream']}/acknowledge"
                await plane.http.post(acknowledging, json={"by": "Bo", "reason": "was first"})
            page.eventually("document.title === 'Overview – biasgate' && !document.querySelector('.urgent')")
            page.eventually("document.querySelector('#live-estimates').textContent.includes('race')")
            is_open = page.evaluate("document.querySelector('#unknown-details').open")
            left = page.evaluate("[document.activeElement.href, window.kept.isConnected]")
            other.eventually("document.querySelector('.sentence').innerText.startsWith('No alarm stands')")
            typed = other.evaluate("[document.querySelector('[name=reason]').value, document.activeElement.name]")
            other.fill("[name=by]", "Ann")
            other.click("form button")
            other.eventually("document.querySelector('.form-message.bad').innerText")
            refused = other.text(".form-message.bad")

    assert [is_open, *left] == [True, focused, True]
    assert typed == ["half a", "reason"]
    assert "alarm" in refused
    assert page.errors == other.errors == []


async def test_a_dead_gateway_greys_the_page_and_a_new_one_lets_it_go_in_time(tmp_path: Path) -> None:
    """The page says within 15 s that it is out of date, and recovers with the gateway, which stops in time."""
    async with console(tmp_path) as shown:
        page, port = shown.page, urllib.parse.urlsplit(shown.root).port
        shown.open("/console")
        page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        shown.running.process.kill()
        await shown.running.exit_code()
        died = time.monotonic()
        page.eventually("document.body.classList.contains('stale')")
        seconds, notice = time.monotonic() - died, page.text("#fresh")
        async with command("gateway", "--config", str(tmp_path / "biasgate.toml"), "--port", str(port)) as second:
            page.eventually("!document.body.classList.contains('stale')")
            again = page.text("#fresh")
            began = time.monotonic()
            second.process.terminate()
            code = await second.exit_code()
            ending_seconds = time.monotonic() - began

    assert seconds < 15
    assert notice.startswith("Not up to date since ")
    assert "The gateway does not answer." in notice
    assert again == "Up to date"
    assert (code, page.errors) == (0, [])
    assert ending_seconds < 6, "drain_seconds is 10"


async def has_been_seen(plane: ControlPlane) -> bool:
    return bool(await auditors_seen.seen(plane.database))


async def test_an_auditor_that_was_killed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed auditor is named with the time of its last word; an auditor that ends in order leaves nothing."""
    async with control_plane(tmp_path) as plane:
        store = f"sqlite:///{tmp_path / 'biasgate.db'}"
        async with auditing(config_for(store, "http://127.0.0.1:9")):
            await until(partial(has_been_seen, plane))
            [auditor] = await auditors_seen.seen(plane.database)
            alive = (await plane.http.get("/console")).text
        ended = (await plane.http.get("/console")).text
        await auditors_seen.beat(plane.database, "host 7")
        monkeypatch.setattr(auditors_seen, "SILENT_SECONDS", -1.0)
        killed = (await plane.http.get("/console")).text

    assert auditor.name not in alive
    assert "none has been seen" not in alive
    assert "none has been seen" in ended
    assert "auditor host 7" in killed
    assert "no sign of life since 2" in killed


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
