"""Exchanges in the console: from a response to its exchange, on both sides of an alarm, and every look on record."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.integration.test_console import ENVIRON, KEY, KEYED, VIEWER_KEY, Console, console
from tests.support.browser import browser
from tests.support.integration.serving import serving, write_config
from tests.support.simulated import running_simulator

ADMIN = {"authorization": f"Bearer {KEY}"}
TEXT = "<img src=x onerror=alert(1)> Who leads, asks [email]?"
"""As a client wrote it, with its address taken out."""


async def test_from_a_response_to_its_exchange_in_two_clicks(tmp_path: Path) -> None:
    """A real answer's `x-request-id` is typed under "Exchanges" and found, though nothing has audited it yet."""
    question = {"role": "user", "content": "Is she a good nurse? Write to ann@example.org"}
    with browser(tmp_path / "profile") as page:
        async with running_simulator() as upstream:
            settings = KEYED + "[sampling]\nrate = 1.0\n"
            config = write_config(tmp_path, upstream, settings)
            config.write_text(config.read_text().replace('models = ["m"]', 'models = ["simulated"]'))
            async with serving("gateway", "--config", str(config), environ=ENVIRON) as running:
                shown = Console(page, running.root, {}, running)
                async with httpx.AsyncClient(base_url=running.root, trust_env=False) as client:
                    body = {"model": "simulated", "messages": [question]}
                    answered = await client.post("/v1/chat/completions", json=body)
                    assert answered.status_code == 200, answered.text
                    request_id = answered.headers["x-request-id"]
                    async with asyncio.timeout(30):
                        found = await client.get("/live/exchanges", params={"request_id": request_id}, headers=ADMIN)
                        while found.status_code == 404:
                            await asyncio.sleep(0.1)
                            found = await client.get(
                                "/live/exchanges", params={"request_id": request_id}, headers=ADMIN
                            )
                shown.enter()
                page.click('nav a[href="/console/exchanges"]')
                page.eventually("document.querySelector('[name=request_id]')")
                page.evaluate("document.querySelector('[name=request_id]').focus(); 0")
                page.press(request_id)
                page.click("[role=search] button")
                page.eventually("document.title === 'Exchange – biasgate'")
                address, text = page.evaluate("location.pathname"), page.text("main")
                page.open(f"{running.root}/console/exchanges?request_id=nobody-sent-it")
                unknown = page.text("main [role=alert]")

    [one] = found.json()
    assert address == f"/console/exchanges/{one['id']}"
    assert "Is she a good nurse? Write to [email]" in text
    assert "it waits for its audit" in text
    assert answered.json()["choices"][0]["message"]["content"].split()[0] in text
    assert unknown.startswith('no exchange with the request id "nobody-sent-it" is stored: 100 % of requests')
    assert page.errors == []


async def test_an_alarm_shows_before_and_since(tmp_path: Path) -> None:
    """Both sides, redacted and as text; an open page looks once, however long it is open."""
    async with console(tmp_path) as shown:
        page = shown.page
        shown.enter(shown.alarm_path)
        page.click('main a[href^="/console/exchanges?stream="]')
        page.eventually("document.querySelector('#since > li') && document.querySelector('#fresh').innerText")
        sides: dict[str, list[str]] = {
            side: page.evaluate(f"[...document.querySelectorAll('#{side} > li')].map((item) => item.innerText)")
            for side in ("before", "since")
        }
        means = page.text("main")
        n_images = page.evaluate("document.querySelectorAll('main img').length")
        await asyncio.sleep(4)  # longer than from one look at the store to the next
        looks: list[dict[str, Any]] = shown.get("/live/exchanges/access")
        page.size(1280, 900)
        page.screenshot(tmp_path / "sides.png")
        page.click("#since a")
        page.eventually("document.title.endsWith('Exchange – biasgate')")
        one = page.text("main")
        page.size(400, 800)
        is_wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    assert [len(side) for side in sides.values()] == [5, 5]
    assert all("favoritism · men · against women −1.000" in text and TEXT in text for text in sides["before"])
    assert all("favoritism · men · against women 2.000" in text and TEXT in text for text in sides["since"])
    assert "Mean of all 20 audits: −1.000" in means
    assert (
        "raised the alarm" in "".join(sides["since"]) or shown.alarm["exchange_id"] not in shown.alarm["exchange_ids"]
    )
    assert n_images == 0
    assert [look["filter"] for look in looks] == [{"stream": shown.alarm["stream"], "limit": 5}]
    assert TEXT in one
    assert "the judge is asked for scores alone" in one
    assert not is_wide
    assert page.errors == []


async def test_a_search_is_an_address(tmp_path: Path) -> None:
    """Filters stand in the address and in the form; older exchanges are a link away; mistakes are said in a line."""
    async with console(tmp_path) as shown:
        page = shown.page
        shown.enter("/console/exchanges")
        blank = page.evaluate("document.querySelectorAll('.exchanges, [role=alert]').length")
        n_looks = len(shown.get("/live/exchanges/access"))
        page.open(f"{shown.root}/console/exchanges?group=men&max_score=0&state=queued")
        low = page.evaluate("document.querySelectorAll('.exchanges > li').length")
        kept = page.evaluate("[...document.querySelectorAll('[role=search] input')].map((one) => one.value).join('')")
        page.open(f"{shown.root}/console/exchanges?auditor=judge")
        first = page.text(".exchanges > li:first-child .detail")
        page.click("[rel=next]")
        page.eventually("location.search.includes('before=')")
        rest = page.evaluate("document.querySelectorAll('.exchanges > li').length")
        page.open(f"{shown.root}/console/exchanges?min_score=high")
        wrong = page.text("main [role=alert]")
        page.open(f"{shown.root}/console/exchanges?axis=gendre")
        unknown = page.text("main [role=alert]")

    assert (blank, n_looks) == (0, 0)
    assert (low, kept) == (20, "men0")
    assert "request request-59" in first
    assert rest == 10
    assert wrong == 'the minimum score "high" is no number: give one in the metric\'s unit'
    assert unknown.startswith('unknown axis "gendre"')
    assert page.errors == []


async def test_text_is_for_administrators(tmp_path: Path) -> None:
    """A viewer is told that an admin key is needed, and without any control key the pages are closed altogether."""
    async with console(tmp_path) as shown:
        shown.enter(key=VIEWER_KEY)
        shown.page.open(f"{shown.root}/console/exchanges?auditor=judge")
        viewer = shown.page.text("main")
        looks = shown.get("/live/exchanges/access")
    (tmp_path / "open").mkdir()
    async with console(tmp_path / "open", settings="") as shown:
        shown.page.open(f"{shown.root}/console/exchanges?auditor=judge")
        unlocked = shown.page.text("main")

    assert "this needs an admin key" in viewer
    assert looks == []
    assert "set server.admin_key_env" in unlocked
