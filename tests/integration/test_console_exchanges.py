"""Exchanges in the console: from a response to its exchange, on both sides of an alarm, and every look on record."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from auditors.audit_texts import LONGEST_CHARS, Answers, KeptAnswer, KeptCall, Reason
from auditors.streams.drift import DriftSettings
from gateway.store import exchanges
from tests.integration.test_console import ENVIRON, HOSTILE, KEY, KEYED, VIEWER_KEY, Console, console
from tests.support.browser import browser
from tests.support.gateway.control_plane import control_plane
from tests.support.integration.serving import serving, write_config
from tests.support.simulated import running_simulator
from tests.support.store.made import exchange, left_beside, measurement, record

ADMIN = {"authorization": f"Bearer {KEY}"}
QUICK = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
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


async def test_exchanges_of_an_alarm_and_of_a_search(tmp_path: Path) -> None:
    """Text is for administrators: a viewer is told so. Of an alarm both sides are shown, redacted and as text; an open
    page looks once, however long it is open. Filters of a search stand in the address and in the form; older exchanges
    are a link away; mistakes are said in a line.
    """
    async with console(tmp_path) as shown:
        page = shown.page
        shown.enter(key=VIEWER_KEY)
        page.open(f"{shown.root}/console/exchanges?auditor=judge")
        viewer = page.text("main")
        page.evaluate("fetch('/console/session', {method: 'DELETE'})")
        shown.enter("/console/exchanges")
        blank = page.evaluate("document.querySelectorAll('.exchanges, [role=alert]').length")
        n_looks = len(shown.get("/live/exchanges/access"))
        page.open(f"{shown.root}{shown.alarm_path}")
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
        page.click("#since a")
        page.eventually("document.title.endsWith('Exchange – biasgate')")
        one = page.text("main")
        complaints = page.complaints()
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

    assert "this needs an admin key" in viewer
    assert (blank, n_looks) == (0, 0)
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
    assert "The judge's reasons: none is kept" in one
    assert (low, kept) == (20, "men0")
    assert "request request-59" in first
    assert rest == 10
    assert wrong == 'the minimum score "high" is not a number in the metric\'s unit'
    assert unknown.startswith('unknown axis "gendre"')
    assert (complaints, page.errors) == ([], [])


async def test_pairs_and_reasons_stand_side_by_side(tmp_path: Path) -> None:
    """Of an alarm and of one exchange, with what differs marked in words too; what models wrote is text, however odd
    and long, at every width and in both themes.
    """
    calls = (
        [KeptCall("grade", '{"who": "his <b>work</b>", "mark": 90}')],
        [KeptCall("grade", '{"mark": 70, "who": "x"}')],
    )
    answers = Answers(
        axis="gender",
        group="men",
        reference="women",
        words_swapped=1,
        question=HOSTILE.replace("Who", "Which of them"),
        asked=[KeptAnswer(text=f"{HOSTILE} He leads.\u202e"), KeptAnswer(text="", calls=calls[0])],
        swapped=[KeptAnswer(text=f"{HOSTILE} She helps.\u202e"), KeptAnswer(text="x" * LONGEST_CHARS, calls=calls[1])],
    )
    async with control_plane(tmp_path, drift={"average_run_length": 20}) as plane:
        for number in range(60):
            one = exchange(
                id=f"pair-{number}",
                request_id=f"pair-{number}",
                received_at=1000.0 + number,
                request_body=b'{"messages": [{"role": "user", "content": "Who leads, asks <i>ann@example.org</i>?"}]}',
            )
            found = measurement(
                -1.0 if number < 20 else 1.0,
                auditor="counterfactual",
                metric="counterfactual_length_difference",
                group="men",
                reference="women",
                judge=None,
            )
            await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
            await record(plane.database, one, [found], auditor="counterfactual", settings=QUICK)
            if number in (19, 59):
                await left_beside(plane.database, one.id, "counterfactual", answers)
                await left_beside(plane.database, one.id, "judge", Reason(text=f"men: {HOSTILE}\u202e"))
        alarm = next(one for one in (await plane.http.get("/live/alarms")).json() if one["auditor"] == "counterfactual")
    config = write_config(tmp_path, "http://127.0.0.1:9", KEYED)
    sides = f"/console/exchanges?stream={alarm['stream']}"
    with browser(tmp_path / "profile") as page:
        async with serving("gateway", "--config", str(config), environ=ENVIRON) as running:
            shown = Console(page, running.root, alarm, running)
            shown.enter(f"/console/alarms/{alarm['stream']}")
            unmatched = page.text("main [aria-labelledby=suite-title]")
            page.click('main a[href^="/console/exchanges?stream="]')
            page.eventually("document.querySelector('#before .sides mark')")
            before = page.evaluate("document.querySelector('#before').textContent")
            page.click("#before a")
            page.eventually("document.querySelector('#reasons')")
            reasons = page.text("#reasons")
            pair = page.evaluate("document.querySelector('[aria-labelledby=pair-title]').textContent")
            marks = page.evaluate("[...document.querySelectorAll('.code mark')].map((one) => one.textContent)")
            injected = page.evaluate("document.querySelectorAll('main img, main .words b, main .words i').length")
            complaints, empty = [], {}
            for path in ("/console/exchanges/pair-19", sides, f"/console/alarms/{alarm['stream']}"):
                complaints += page.complaints(f"{running.root}{path}")
                below = "document.documentElement.scrollHeight - document.querySelector('main')"
                empty[path] = page.evaluate(f"{below}.getBoundingClientRect().bottom - scrollY")

    assert "No suite measures this of fixed questions." in unmatched
    assert "only here: She helps – end" in before
    assert reasons.startswith("men: <img src=x onerror=alert(1)> Who leads, asks [email]?")
    assert "only here: He leads – end" in pair
    assert "Calls, none of them run" in pair
    assert any(mark.startswith("only here: ") and "90" in mark for mark in marks)
    assert injected == 0
    assert complaints == []
    assert max(empty.values()) < 900  # what is said to hearers alone is within its text, however long that is
    assert page.errors == []
