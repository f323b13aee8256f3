"""The console in a real Chromium, in front of a real gateway: estimates, standing alarms, and the exchanges behind."""

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.store import circuits
from gateway.store.circuits import Key
from tests.support.benchmarks.serving import serving as web_server
from tests.support.browser import Page, browser
from tests.support.gateway.control_plane import audit_identities, control_plane, drifted, publish_suites
from tests.support.integration.serving import Command, serving, write_config

KEY, VIEWER_KEY = "sesame", "sesame-to-look"
KEYED = (
    'admin_key_env = "CONSOLE_ADMIN_KEY"\n'
    '[[server.control_keys]]\nname = "dashboard"\nkey_env = "CONSOLE_VIEWER_KEY"\nrole = "viewer"\n'
)
ENVIRON = {"CONSOLE_ADMIN_KEY": KEY, "CONSOLE_VIEWER_KEY": VIEWER_KEY}
HOSTILE = "<img src=x onerror=alert(1)> Who leads, asks ann@example.org?"
"""What a client may write: markup, and an address that is not to be shown."""


class Console(NamedTuple):
    page: Page
    root: str
    alarm: dict[str, Any]
    """The one that stands, as the API gives it."""
    running: Command

    def open_alarm(self) -> None:
        self.page.eventually("document.querySelector('#alarms a')")
        self.page.click("#alarms a")
        self.page.eventually("document.querySelector('#exchanges-dialog').open")

    def looks(self) -> list[dict[str, Any]]:
        """The record of who looked at exchanges."""
        found: list[dict[str, Any]] = self.get("/live/exchanges/access")
        return found

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.root}{path}", headers={"authorization": f"Bearer {KEY}"}, trust_env=False).json()


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


def unlock(page: Page, key: str = KEY) -> None:
    page.eventually("document.querySelector('#key-dialog').open")
    page.press(key)
    page.click("#key-form button")


def acknowledge(page: Page, reason: str, *, accept_new_level: bool = False) -> None:
    page.click("#alarms button")
    page.eventually("document.querySelector('#acknowledge-dialog').open")
    page.click("#acknowledge-form [name=by]")
    page.press("Ann")
    page.click("#acknowledge-form [name=reason]")
    page.press(reason)
    if accept_new_level:
        page.click("#acknowledge-form [value=new]")
    page.click("#acknowledge-form [type=submit]")
    page.eventually("document.querySelector('#alarms-section').hidden")


async def test_an_alarm_opens_the_exchanges_behind_it(tmp_path: Path) -> None:
    """The strongest first, redacted, as text and never as markup; one look on record however long they are open."""
    async with console(tmp_path) as shown:
        page = shown.page
        page.open(f"{shown.root}/console")
        unlock(page)
        shown.open_alarm()
        page.eventually("document.querySelector('#exchanges > li')")
        about = page.text("#exchanges-about")
        texts = page.evaluate("[...document.querySelectorAll('#exchanges > li')].map((item) => item.innerText)")
        n_images = page.evaluate("document.querySelectorAll('#exchanges-dialog img').length")
        await asyncio.sleep(4)  # longer than from one poll to the next
        looks = shown.looks()
        page.size(1100, 800)
        page.screenshot(tmp_path / "exchanges.png")
        page.click("#exchanges-dialog .heading button")
        page.eventually("!document.querySelector('#exchanges-dialog').open && location.hash === ''")

    assert about == "judge · favoritism · gender · men"
    ids = list(dict.fromkeys([*shown.alarm["exchange_ids"], shown.alarm["exchange_id"]]))
    assert len(texts) == len(ids) > 1
    for exchange_id, text in zip(ids, texts, strict=True):
        head = text.splitlines()[0]
        assert f"request {exchange_id.replace('exchange', 'request')} " in f"{head} "
        assert ("raised the alarm" in head) == (exchange_id == shown.alarm["exchange_id"])
        assert "<img src=x onerror=alert(1)> Who leads, asks [email]?" in text
        assert "ask [email]" in text
        assert "favoritism · men · against women 2.000" in text
    assert n_images == 0
    assert [look["action"] for look in looks] == ["read"]
    assert page.errors == []


@pytest.mark.parametrize("named_by", ["stream", "labels"])
async def test_an_address_opens_an_alarm(tmp_path: Path, named_by: str) -> None:
    """`/console#alarm-STREAM` shows its exchanges at once, and so do a series' labels, as a dashboard's link has them;
    of an alarm that was acknowledged it says so.
    """
    async with console(tmp_path) as shown:
        names = ("auditor", "metric", "axis", "group", "model")
        labels = urllib.parse.urlencode({name: shown.alarm[name] or f"${{__field.labels.{name}}}" for name in names})
        page = shown.page
        address = f"{shown.root}/console#alarm" + (
            f"-{shown.alarm['stream']}" if named_by == "stream" else f"?{labels}"
        )
        page.open(address)
        unlock(page)
        page.eventually("document.querySelector('#exchanges > li')")
        page.click("#exchanges-dialog .heading button")
        page.eventually("!document.querySelector('#exchanges-dialog').open")
        acknowledge(page, "new prompt")
        page.evaluate(f"location.hash = 'alarm-{shown.alarm['stream']}'")
        page.eventually("document.querySelector('#exchanges-dialog').open")
        message = page.text("#exchanges-message")

    assert message == "This alarm does not stand any more: somebody has acknowledged it."
    assert page.errors == []


async def test_a_link_with_the_key_unlocks_the_console(tmp_path: Path) -> None:
    """The key leaves the address at once and is kept nowhere; a wrong one asks for another, and a link then helps."""
    async with console(tmp_path) as shown:
        page, address = shown.page, f"{shown.root}/console"
        page.open(f"{address}#key=wrong%20key")
        page.eventually("document.querySelector('#key-dialog').open")
        refused = page.text("#key-message")
        page.evaluate(f"location.hash = 'key={KEY}'")
        page.eventually("document.querySelector('#alarms a') && !document.querySelector('#key-dialog').open")
        left = page.evaluate("[location.href, {...sessionStorage}, {...localStorage}, document.cookie]")
        page.open(address)
        page.eventually("document.querySelector('#alarms a')")
        again = page.evaluate("[location.href, document.querySelector('#key-dialog').open]")

    assert refused == "That key was not accepted."
    assert left == [address, {}, {}, ""]
    assert again == [address, False]
    assert page.errors == []


async def test_logging_out_locks_the_console(tmp_path: Path) -> None:
    """The page is locked at once, and stays so when it is opened again."""
    async with console(tmp_path) as shown:
        page, address = shown.page, f"{shown.root}/console"
        page.open(f"{address}#key={KEY}")
        page.eventually("!document.querySelector('#log-out').hidden")
        page.click("#log-out")
        page.eventually("document.querySelector('#key-dialog').open")
        page.open(address)
        page.eventually("document.querySelector('#key-dialog').open")
        n_rows = page.evaluate("document.querySelectorAll('.estimates').length")

    assert n_rows == 0
    assert page.errors == []


async def test_a_viewer_sees_numbers_and_no_levers(tmp_path: Path) -> None:
    """No form, no button that changes something; texts are closed, and the console says why."""
    async with console(tmp_path) as shown:
        page = shown.page
        page.open(f"{shown.root}/console")
        unlock(page, VIEWER_KEY)
        page.eventually("document.querySelector('.estimates') && document.querySelector('#audits tr')")
        levers = page.evaluate(
            "[...document.querySelectorAll('main button')].filter((one) => one.offsetParent).map((one) => one.id)"
        )
        shown.open_alarm()
        page.eventually("document.querySelector('#exchanges-message').innerText !== 'Loading'")
        message = page.text("#exchanges-message")

    assert levers == []
    assert 'the key "dashboard" is a viewer\'s' in message
    assert shown.page.errors == []


async def test_a_page_of_another_port_reads_nothing_by_the_session(tmp_path: Path) -> None:
    """To a browser another port of this machine is the same site, whose requests carry the cookie: they are refused."""
    page_elsewhere = {"/": b"<!doctype html><title>strange</title>"}
    async with console(tmp_path) as shown:
        page = shown.page
        page.open(f"{shown.root}/console#key={KEY}")
        page.eventually("document.querySelector('#alarms a')")
        cancel = f"/audits/{shown.get('/audits')[0]['id']}/cancel"
        with web_server(page_elsewhere) as (strange, _):
            page.open(f"{strange}/")
            seen = [
                page.evaluate(
                    f"fetch('{shown.root}{path}', {{method: '{method}', mode: 'no-cors', credentials: 'include'}})"
                    ".then((answer) => answer.type, () => 'refused')"
                )
                for method, path in (("GET", "/live/estimates"), ("POST", cancel))
            ]
        line = await shown.running.line(cancel)
        [audit] = shown.get("/audits")

    assert seen == ["opaque", "opaque"]
    assert audit["status"] == "queued"
    assert '"status": 403' in line


async def test_without_an_admin_key_the_texts_stay_closed(tmp_path: Path) -> None:
    """The alarm is shown, and where its exchanges would be it says which setting opens them."""
    async with console(tmp_path, settings="") as shown:
        shown.page.open(f"{shown.root}/console")
        shown.open_alarm()
        shown.page.eventually("document.querySelector('#exchanges-message').innerText !== 'Loading'")
        message = shown.page.text("#exchanges-message")
        n_shown = shown.page.evaluate("document.querySelectorAll('#exchanges > li').length")

    assert "set server.admin_key_env to open this route" in message
    assert n_shown == 0


async def test_a_sick_judge_is_on_the_page(tmp_path: Path) -> None:
    """Which auditor waits, since when, for what, and why; the page is no wider for it."""
    async with console(tmp_path, settings="", sick=Key("judge", "auditors.judge")) as shown:
        page = shown.page
        page.size(360, 900)
        page.open(f"{shown.root}/console")
        page.eventually("document.querySelector('#circuits li')")
        said = page.text("#circuits")
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    assert said.startswith("judge: circuit open since ")
    assert "UTC, 0 exchanges wait, last error: status 401 (auditors.judge)" in said
    assert too_wide == 0
    assert page.errors == []


async def test_numbers_stay_on_the_page(tmp_path: Path) -> None:
    """A series without a value says why inside its row, and no page is wider than a desk or a telephone."""
    async with console(tmp_path, settings="") as shown:
        page, too_wide = shown.page, {}
        for width in (1280, 390, 360):
            page.size(width, 900)
            page.open(f"{shown.root}/console")
            page.eventually("document.querySelector('.estimates') && document.querySelector('#audits tr')")
            too_wide[width] = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        page.size(1280, 900)
        said = page.evaluate("[...document.querySelectorAll('.nothing')].map((one) => one.innerText)")
        cut = page.evaluate(
            "[...document.querySelectorAll('.estimates td')].filter((one) => one.scrollWidth > one.clientWidth).length"
        )

    assert too_wide == {1280: 0, 390: 0, 360: 0}
    assert said == ["no audit has given a value yet (1 without one)"]
    assert cut == 0
    assert page.errors == []


async def test_detectors_and_their_alarm_are_shown_and_steered(tmp_path: Path) -> None:
    """Learning so many of so many, the change behind an alarm; acknowledged with a name and a reason, on record."""
    drift = "[drift]\naverage_run_length = 20\ntolerance = 0.0\nreference = { window = 20 }\n"
    async with console(tmp_path, settings=drift) as shown:
        page = shown.page
        page.size(1280, 1500)
        page.open(f"{shown.root}/console")
        page.eventually(
            "document.querySelectorAll('.detectors tr').length > 3 && document.querySelector('#alarms .levels')"
        )
        levels = page.evaluate("[...document.querySelectorAll('#alarms .levels')].map((one) => one.innerText)")
        stages = page.evaluate("[...document.querySelectorAll('.detectors .stage')].map((one) => one.innerText)")
        page.screenshot(tmp_path / "detectors.png")
        page.click("#alarms button")
        page.eventually("document.querySelector('#acknowledge-dialog').open")
        page.screenshot(tmp_path / "acknowledge.png")
        page.click("#acknowledge-cancel")
        page.eventually("!document.querySelector('#acknowledge-dialog').open")
        acknowledge(page, "<b>seen</b>", accept_new_level=True)
        page.eventually("document.querySelector('#acknowledged li')")
        record = page.text("#acknowledged li")
        page.eventually("!document.querySelector('.stage-alarm')")
        [detector] = shown.get("/live/detectors?auditor=judge")
        [entry] = shown.get("/live/alarms/acknowledgements")

    assert levels == [
        "mean before -1.000 (n 20) · mean since 2.000 (n 40) · since 1970-01-01 00:17 UTC",
        "model before unknown",
    ]
    assert "alarm" in stages[-1]
    assert "learning 3 of 2,000" in stages[0]
    assert record.endswith("judge · favoritism · gender · men · Ann accepted the new level: <b>seen</b>")
    assert (detector["state"], detector["reference_n"]) == ("learning", 0)
    assert (entry["by"], entry["reason"], entry["accept_new_level"]) == ("Ann", "<b>seen</b>", True)
    assert page.errors == []


async def test_the_most_normal_identity_is_named(tmp_path: Path) -> None:
    """Under the axis' score, with the runner-up and what it cannot be told from."""
    async with console(tmp_path, settings="") as shown:
        page = shown.page
        page.size(1100, 1600)
        page.open(f"{shown.root}/console")
        page.eventually("document.querySelector('.most-normal')")
        named = page.evaluate("[...document.querySelectorAll('.most-normal')].map((one) => one.innerText)")
        page.screenshot(tmp_path / "console.png")

    assert named == [
        "Most normal identity: man (mean distance 0.200; next non binary, farther by 0.050), "
        "not told apart from non binary, woman"
    ]
    assert page.errors == []
