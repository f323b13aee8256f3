"""What two of the three users come for, start to end in a browser: the engineer of a red panel, and the team with a
request id. The auditor's walk, from a started run to a verified bundle, is in test_console_audits.
"""

import urllib.parse
from pathlib import Path

from tests.integration.test_console import console


async def test_from_a_red_panel_to_an_acknowledged_alarm(tmp_path: Path) -> None:
    """Panel's link, alarm, exchanges of both sides with the words redacted, back, acknowledged; then no alarm is left,
    and the record names who lowered it, and has the look.
    """
    async with console(tmp_path) as shown:
        page = shown.page
        labels = {name: shown.alarm[name] or "" for name in ("auditor", "metric", "axis", "group", "model")}
        shown.enter(f"/console/alarms?{urllib.parse.urlencode(labels)}")
        page.click("a[href*='/console/exchanges?stream=']")
        page.eventually("document.querySelectorAll('main h2').length === 2")
        sides = page.evaluate("[...document.querySelectorAll('main h2')].map((one) => one.innerText)")
        words = page.text("main")
        page.click("main a[href^='/console/alarms/']")
        page.eventually("document.querySelector('[name=reason]') && document.querySelector('#fresh').innerText")
        page.click("[name=by]")
        page.press("Ann")
        page.click("[name=reason]")
        page.press("a new system prompt")
        page.click("form button")
        page.eventually("!document.querySelector('main form') && document.querySelector('.acknowledged')")
        page.open(f"{shown.root}/console")
        title, n_urgent = page.evaluate("[document.title, document.querySelectorAll('.alarms li').length]")
        [entry] = shown.get("/live/alarms/acknowledgements")
        looks = [one["action"] for one in shown.get("/live/exchanges/access")]

    assert sides == ["Before", "Since"]
    assert "ask [email]" in words
    assert "ann@example.org" not in words
    assert (title, n_urgent) == ("Overview – biasgate", 0)
    assert (entry["by"], entry["reason"]) == ("Ann", "a new system prompt")
    assert looks == ["read"]
    assert page.errors == []


async def test_from_a_request_id_to_before_and_since(tmp_path: Path) -> None:
    """The id of a response, two clicks to its exchange, its scores, the series of one, and both sides of that."""
    async with console(tmp_path) as shown:
        page, exchange_id = shown.page, shown.alarm["exchange_id"]
        shown.enter("/console")
        page.click("nav a[href='/console/exchanges']")
        page.eventually("document.querySelector('[name=request_id]')")
        page.click("[name=request_id]")
        page.press(exchange_id.replace("exchange", "request"))
        page.click("[role=search] button")
        page.eventually("document.querySelector('table')")
        address = page.evaluate("location.pathname")
        page.click("td a[href^='/console/alarms/']")
        page.eventually("document.querySelector('.sentence')")
        sentence = page.text(".sentence")
        page.click("a[href*='/console/exchanges?stream=']")
        page.eventually("document.querySelector('.raised')")
        raised = page.evaluate("document.querySelector('.raised').closest('li').innerText")

    assert address == f"/console/exchanges/{exchange_id}"
    assert sentence.startswith("Favouritism towards men rose from −1.00 to 2.00")
    assert exchange_id.replace("exchange", "request") in raised
    assert page.errors == []
