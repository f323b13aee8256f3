"""The console in a real Chromium, in front of a real gateway: its pages, what is live in them, and who may see them."""

import asyncio
import contextlib
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from gateway.console.showing import MOST_OPEN
from gateway.store import circuits
from gateway.store.circuits import Key
from tests.support.benchmarks.serving import serving as web_server
from tests.support.browser import Page, browser
from tests.support.gateway.control_plane import audit_identities, control_plane, drifted, publish_suites
from tests.support.integration.serving import Command, command, serving, write_config

KEY, VIEWER_KEY = "sesame", "sesame-to-look"
KEYED = (
    'admin_key_env = "CONSOLE_ADMIN_KEY"\n'
    '[[server.control_keys]]\nname = "dashboard"\nkey_env = "CONSOLE_VIEWER_KEY"\nrole = "viewer"\n'
)
ENVIRON = {"CONSOLE_ADMIN_KEY": KEY, "CONSOLE_VIEWER_KEY": VIEWER_KEY}
HOSTILE = "<img src=x onerror=alert(1)> Who leads, asks ann@example.org?"
"""What a client may write: markup, and an address that is not to be shown."""
PAGES = ("/console", "/console/alarms", "/console/fingerprints", "/console/coverage", "/console/settings")


class Console(NamedTuple):
    page: Page
    root: str
    alarm: dict[str, Any]
    """The one that stands, as the API gives it."""
    running: Command

    @property
    def alarm_path(self) -> str:
        return f"/console/alarms/{self.alarm['stream']}"

    @property
    def acknowledging(self) -> str:
        return f"/live/alarms/{self.alarm['stream']}/acknowledge"

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.root}{path}", headers={"authorization": f"Bearer {KEY}"}, trust_env=False).json()

    def enter(self, path: str = "/console", key: str = KEY) -> None:
        """Logs in on the way to a page."""
        self.page.open(f"{self.root}{path}")
        self.page.eventually("document.querySelector('#login')")
        self.page.click("#key")
        self.page.press(key)
        self.page.click("#login button")
        self.page.eventually("document.querySelector('body[data-live]') && document.querySelector('#fresh').innerText")


@asynccontextmanager
async def console(directory: Path, *, settings: str = KEYED, sick: Key | None = None) -> AsyncIterator[Console]:
    """A gateway on a store with an alarm, audits under identities, a run that waits, and a page that is still blank."""
    with browser(directory / "profile") as page:
        async with control_plane(directory, drift={"average_run_length": 20}) as plane:
            await publish_suites(plane)
            await drifted(plane, text=HOSTILE)
            for number in range(3):
                await audit_identities(plane, number, {"man": 0.2, "woman": 0.3, "non_binary": 0.25})
            await audit_identities(plane, 1, {"white": None}, axis="race")
            asked = {"suites": "stereoset", "model": "qwen", "data": "embedded"}
            (await plane.http.post("/audits", json=asked)).raise_for_status()
            [alarm] = (await plane.http.get("/live/alarms")).json()
            if sick is not None:
                await circuits.open_circuit(plane.database, sick, error="status 401", pause_seconds=1.0)
        config = write_config(directory, "http://127.0.0.1:9", settings)
        async with serving("gateway", "--config", str(config), environ=ENVIRON) as running:
            yield Console(page, running.root, alarm, running)


@pytest.fixture(scope="module")
def keyed_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console with keys and a sick judge, for tests that only read."""
    home = tmp_path_factory.mktemp("keyed")
    opened = console(home, sick=Key("judge", "auditors.judge"))
    with start_blocking_portal() as elsewhere, elsewhere.wrap_async_context_manager(opened) as shown:
        yield shown


@pytest.fixture
def keyed(keyed_console: Console, tmp_path: Path) -> Iterator[Console]:
    """The same with a page of its own."""
    with browser(tmp_path) as page:
        yield keyed_console._replace(page=page)


async def test_an_alarm_is_understood_and_acknowledged(tmp_path: Path) -> None:
    """From the overview to the alarm, one sentence says what happened; acknowledged by name and reason, on record."""
    drift = "[drift]\naverage_run_length = 20\ntolerance = 0.0\nreference = { window = 20 }\n"
    async with console(tmp_path, settings=drift) as shown:
        page = shown.page
        page.open(f"{shown.root}/console")
        title = page.evaluate("document.title")
        page.click(".alarms .action")
        page.eventually("location.pathname.startsWith('/console/alarms/')")
        address = page.evaluate("location.pathname")
        sentence = page.text(".sentence")
        page.eventually("document.querySelector('form') && document.querySelector('#fresh').innerText")
        page.click("form button")  # without a name and a reason the browser sends nothing
        page.click("[name=by]")
        page.press("Ann")
        page.click("[name=reason]")
        page.press("<b>seen</b>")
        page.click("[name=accept_new_level][value=true]")
        page.click("form button")
        page.eventually("!document.querySelector('main form') && document.querySelector('.acknowledged')")
        record, now = page.text(".acknowledged li"), page.text(".sentence")
        [detector] = shown.get("/live/detectors?auditor=judge")
        [entry] = shown.get("/live/alarms/acknowledgements")

    assert title == "(1) Overview – biasgate"
    assert address == shown.alarm_path
    assert sentence == (
        "Favouritism towards men rose from −1.00 to 2.00 (n 20, then 40) since 1970-01-01 00:17 UTC; "
        "whether the model changed is not known."
    )
    assert record.endswith("Ann accepted the new level: <b>seen</b>")
    assert now == "No alarm stands: the detector learns its reference (0 of 20 audits)."
    assert (detector["state"], detector["reference_n"]) == ("learning", 0)
    assert (entry["by"], entry["reason"], entry["accept_new_level"]) == ("Ann", "<b>seen</b>", True)
    assert page.errors == []


async def test_only_what_changes_is_replaced(tmp_path: Path) -> None:
    """While numbers come in, what is typed, marked, folded out and focused stays; the rest is new, the title too."""
    async with console(tmp_path, settings="") as shown:
        page = shown.page
        page.open(f"{shown.root}/console")
        page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        page.click("#unknown-details summary")
        page.click("#others-details summary")
        page.evaluate("window.kept = document.querySelector('#live-suites').firstElementChild; 0")
        page.evaluate("document.querySelector('.estimates a').focus(); 0")
        focused = page.evaluate("document.activeElement.href")
        async with control_plane(tmp_path, drift={"average_run_length": 20}) as plane:
            await audit_identities(plane, 9, {"white": None, "man": 0.1}, axis="race")
            await plane.http.post(shown.acknowledging, json={"by": "Bo", "reason": "no"})
        page.eventually("document.title === 'Overview – biasgate' && !document.querySelector('.urgent')")
        page.eventually("document.querySelector('#live-estimates').textContent.includes('race')")
        state = page.evaluate(
            "[document.querySelector('#unknown-details').open, document.activeElement.href, window.kept.isConnected]"
        )

    assert state == [True, focused, True]
    assert page.errors == []


async def test_what_is_being_typed_waits(tmp_path: Path) -> None:
    """A half-written reason stays when somebody else acknowledges the alarm meanwhile; the sentence says it was."""
    async with console(tmp_path, settings="") as shown:
        page = shown.page
        page.open(f"{shown.root}{shown.alarm_path}")
        page.click("[name=reason]")
        page.press("half a")
        body = {"by": "Bo", "reason": "was first"}
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{shown.root}{shown.acknowledging}", json=body)).raise_for_status()
        page.eventually("document.querySelector('.sentence').innerText.startsWith('No alarm stands')")
        typed = page.evaluate("[document.querySelector('[name=reason]').value, document.activeElement.name]")
        page.click("[name=by]")
        page.press("Ann")
        page.click("form button")
        page.eventually("document.querySelector('.form-message.bad').innerText")
        refused = page.text(".form-message.bad")

    assert typed == ["half a", "reason"]
    assert "alarm" in refused
    assert page.errors == []


async def test_a_dead_gateway_greys_the_page_and_a_new_one_is_found(tmp_path: Path) -> None:
    """Within 15 s of its end the page says since when it is not up to date; it goes on when the gateway is back."""
    async with console(tmp_path, settings="") as shown:
        page, port = shown.page, urllib.parse.urlsplit(shown.root).port
        page.open(f"{shown.root}/console")
        page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        shown.running.process.kill()
        await shown.running.exit_code()
        died = time.monotonic()
        page.eventually("document.body.classList.contains('stale')")
        took, said = time.monotonic() - died, page.text("#fresh")
        async with command("gateway", "--config", str(tmp_path / "biasgate.toml"), "--port", str(port)):
            page.eventually("!document.body.classList.contains('stale')")
            again = page.text("#fresh")

    assert took < 15
    assert said.startswith("Not up to date since ")
    assert "The gateway does not answer." in said
    assert again == "Up to date"
    assert page.errors == []


async def test_an_open_page_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """A gateway that is told to stop lets its open pages go at once, long before `drain_seconds`."""
    async with console(tmp_path, settings="") as shown:
        shown.page.open(f"{shown.root}/console")
        shown.page.eventually("document.querySelector('#fresh').innerText === 'Up to date'")
        began = time.monotonic()
        shown.running.process.terminate()
        code = await shown.running.exit_code()
        took = time.monotonic() - began

    assert code == 0
    assert took < 6, "drain_seconds is 10"


async def test_a_killed_auditor_is_red_within_15_seconds(tmp_path: Path) -> None:
    """One that was killed is named with the time of its last word; one that ends in order leaves nothing."""
    dead = "[...document.querySelectorAll('.health .bad')].find((one) => one.innerText.includes('no sign of life'))"
    async with console(tmp_path, settings="[auditors.embedding]\nenabled = false\n") as shown:
        page, config = shown.page, str(tmp_path / "biasgate.toml")
        page.open(f"{shown.root}/console")
        page.eventually("document.querySelector('.health').innerText.includes('none has been seen')")
        async with command("auditor", "--config", config) as auditor:
            alive = "[...document.querySelectorAll('.health .well')].some((one) => one.innerText === 'auditor')"
            page.eventually(alive)
            auditor.process.kill()
            await auditor.exit_code()
            died = time.monotonic()
            page.eventually(dead)
            took = time.monotonic() - died
        async with command("auditor", "--config", config) as auditor:
            page.eventually(alive)
            auditor.process.terminate()
            await auditor.exit_code()
        page.eventually(f"!({alive})")
        n_dead = page.evaluate("document.querySelectorAll('.health .bad').length")
        said = page.text(".health")

    assert took < 15
    assert said.count("no sign of life") == 1, "the second one said goodbye"
    assert n_dead == 2, "and the upstream is down"
    assert page.errors == []


async def test_more_pages_than_a_worker_serves_stand_still(keyed_console: Console) -> None:
    """The 51st gets an answer that says so; when one is closed there is room again."""
    asked, page = {"accept": "text/event-stream"}, f"{keyed_console.root}/console/settings"
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as client:
        lines: list[AsyncIterator[str]] = []  # which end a stream when they are forgotten
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_OPEN):
                opened = await stack.enter_async_context(client.stream("GET", page, headers=asked))
                lines.append(opened.aiter_lines())
                assert (await anext(lines[-1])) == "event: update"
            refused = await client.get(page, headers=asked)
            whole = await client.get(page)
        async with asyncio.timeout(30):
            while True:
                async with client.stream("GET", page, headers=asked) as after:
                    if after.status_code == 200:
                        break
                await asyncio.sleep(0.2)

    assert (refused.status_code, whole.status_code) == (429, 200)
    assert "50 pages are open already" in refused.json()["detail"]


async def test_a_page_of_another_port_reads_nothing_by_the_session(keyed: Console) -> None:
    """To a browser another port of this machine is the same site, whose requests carry the cookie: they are refused."""
    keyed.enter()
    cancel = f"/audits/{keyed.get('/audits')[0]['id']}/cancel"
    with web_server({"/": b"<!doctype html><title>strange</title>"}) as (strange, _):
        keyed.page.open(f"{strange}/")
        seen = [
            keyed.page.evaluate(
                f"fetch('{keyed.root}{path}', {{method: '{method}', mode: 'no-cors', credentials: 'include'}})"
                ".then((answer) => answer.type, () => 'refused')"
            )
            for method, path in (("GET", "/live/estimates"), ("POST", cancel))
        ]
    line = await keyed.running.line(cancel)

    assert seen == ["opaque", "opaque"]
    assert keyed.get("/audits")[0]["status"] == "queued"
    assert '"status": 403' in line


def test_a_dashboards_link_finds_the_series(keyed: Console) -> None:
    """Labels of a series, those it lacks left as Grafana leaves them, lead to its page through the entrance; those of
    no series are said to be so, above the alarms, with what learns folded.
    """
    names = ("auditor", "metric", "axis", "group", "model")
    labels = {name: keyed.alarm[name] or f"${{__field.labels.{name}}}" for name in names}
    keyed.enter(f"/console/alarms?{urllib.parse.urlencode(labels)}")
    address = keyed.page.evaluate("location.pathname")
    keyed.page.open(f"{keyed.root}/console/alarms?{urllib.parse.urlencode(labels | {'model': 'gone'})}")
    notice = keyed.page.text(".notice")
    [row] = keyed.page.evaluate("[...document.querySelectorAll('.detectors tbody tr')].map(row => row.className)")
    learning = "document.querySelector('#learning-details')"
    is_open = keyed.page.evaluate(f"{learning}.open")
    keyed.page.click("#learning-details summary")
    n_learning = keyed.page.evaluate(f"[...{learning}.querySelectorAll('li')].filter(one => one.offsetHeight).length")

    assert address == keyed.alarm_path
    assert notice.startswith("There is no series with these labels")
    assert (row, is_open) == ("alarmed", False)
    assert n_learning > 1


def test_a_link_with_the_key_unlocks_the_console(keyed: Console) -> None:
    """The key leaves the address at once and is kept nowhere; a wrong one asks for another, and a link then helps."""
    page, address = keyed.page, f"{keyed.root}/console"
    page.open(f"{address}#key=wrong%20key")
    page.eventually("document.querySelector('#message').innerText")
    refused = page.text("#message")
    page.evaluate(f"location.hash = 'key={KEY}'")
    page.eventually("document.querySelector('body[data-live]')")
    left = page.evaluate("[location.href, {...sessionStorage}, {...localStorage}, document.cookie]")
    page.open(f"{address}#key={KEY}")
    page.eventually("location.hash === '' && document.querySelector('body[data-live]')")

    assert refused == "That key was not accepted."
    assert left == [address, {}, {}, ""]
    assert page.errors == []


def test_the_entrance_leads_to_pages_of_the_console_only(keyed: Console) -> None:
    """A link that asks to be led elsewhere afterwards leads to the overview."""
    outside = ("https://example.org/", "//example.org", "/\\\\example.org", "/console\\..", "javascript:alert(1)")
    for elsewhere in outside:
        keyed.page.open(f"{keyed.root}/console/login?to={urllib.parse.quote(elsewhere, safe='')}")
        assert keyed.page.evaluate("document.querySelector('#login').dataset.to") == "/console"
    assert keyed.page.faults() == []


def test_logging_out_locks_the_console(keyed: Console) -> None:
    """The page is locked at once, and stays so when it is opened again."""
    keyed.enter()
    keyed.page.click("#log-out")
    keyed.page.eventually("document.querySelector('#login')")
    keyed.page.open(f"{keyed.root}/console/alarms")
    keyed.page.eventually("document.querySelector('#login')")
    n_estimates = keyed.page.evaluate("document.querySelectorAll('.estimates').length")

    assert n_estimates == 0
    assert keyed.page.evaluate("document.querySelector('#login').dataset.to") == "/console/alarms"
    assert keyed.page.errors == []


def test_a_viewer_sees_numbers_and_no_levers(keyed: Console) -> None:
    """No form on any page; what only an administrator may do is not offered."""
    keyed.enter(key=VIEWER_KEY)
    levers = {}
    for path in (*PAGES, keyed.alarm_path):
        keyed.page.open(f"{keyed.root}{path}")
        levers[path] = keyed.page.evaluate("document.querySelectorAll('main form, main button').length")

    assert levers == dict.fromkeys(levers, 0)
    assert keyed.page.evaluate("document.querySelectorAll('.facts dd').length") > 5
    assert keyed.page.errors == []


def test_what_the_overview_says(keyed: Console) -> None:
    """A series without a value is no zero: it is counted, and says why; the most normal identity has its runner-up.
    Which auditor waits, since when, for what, and why, is on every page.
    """
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


def test_pages_hold_at_every_width_and_in_both_themes(keyed: Console) -> None:
    """Nothing is wider than the window, axe-core finds no fault, no number is cut off, no script fails."""
    keyed.enter()
    page = keyed.page
    for path in (*PAGES, keyed.alarm_path, "/console/alarms/none", "/console/labelling"):
        assert page.complaints(f"{keyed.root}{path}") == []
        cells = "[...document.querySelectorAll('.estimates td')]"
        assert page.evaluate(f"{cells}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0, path
        tables = "[...document.querySelectorAll('.scroll > table')].map((one) => one.parentElement)"
        beyond = page.evaluate(f"{tables}.filter((one) => one.scrollWidth > one.clientWidth).length")
        assert beyond == 0, f"{path}: on a narrow window a row stands as a block"
        assert page.squeezed() == 0, f"{path}: a bar needs room on a narrow window"

    assert page.errors == []
