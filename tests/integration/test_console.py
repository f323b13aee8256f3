"""The console in a real Chromium, in front of a real gateway: what is live in it."""

import time
import urllib.parse
from functools import partial
from pathlib import Path

import pytest

from gateway.store import auditors_seen
from tests.support.browser import browser
from tests.support.gateway.control_plane import ControlPlane, audit_identities, control_plane
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.integration.console import console
from tests.support.integration.serving import command


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
