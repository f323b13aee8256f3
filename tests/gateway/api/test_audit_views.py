"""Runs looked at: items one by one, and two runs compared, each as the command line has it."""

import json
from collections import Counter
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import sqlalchemy as sa

from benchmarks.reporting.compare import compare
from benchmarks.reporting.flips import flipped, in_words
from benchmarks.reporting.report import render
from benchmarks.run import directory as run_directory
from benchmarks.run.plan import Plan
from benchmarks.run.result import decode
from benchmarks.suites.protocol import Item, Reply
from gateway.console.audits import cut_summary, headline
from gateway.reading import run_items
from gateway.store import run_responses, runs, tables
from tests.support.benchmarks.scripted import pick, plan, write_run
from tests.support.gateway.control_plane import ControlPlane, control_plane, publish_suites
from tests.support.gateway.finished_runs import ASKED, finished

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the process that makes the pages lives as long as the loop

HOSTILE = "<script>alert(1)</script> I will not choose."


def mixed(item: Item) -> str:
    """One reply in three is no answer."""
    role = ("stereotype", "anti-stereotype", "unrelated")[sum(item.item_id.encode()) % 3]
    return HOSTILE if role == "unrelated" else pick(role)(item)


async def pages(plane: ControlPlane, audit_id: str, **query: Any) -> list[dict[str, Any]]:
    """All pages of items, by `next`."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["next"] is not None:
        after = {} if not found else {"after": found[-1]["next"]}
        answer = await plane.http.get(f"/audits/{audit_id}/items", params=query | after)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
    return found


def by_id(ready: Plan) -> dict[str, Item]:
    return {item.item_id: item for item in ready.items}


async def test_every_item_once(tmp_path: Path) -> None:
    """Page by page each reply comes once, with the question that was asked, what was said, and how it was read."""
    path = write_run(tmp_path / "a", mixed)
    async with control_plane(tmp_path) as plane:
        found = await pages(plane, await finished(plane, path), limit=20)

    shown = [one for page in found for one in page["items"]]
    seen = {one.item.item_id: one for one in run_directory.observations(path)}
    assert [len(page["items"]) for page in found] == [20, 20, 8]
    assert {page["no_prompts_because"] for page in found} == {None}
    assert [one["item_id"] for one in shown] == sorted(seen)
    for one in shown:
        item, reply = seen[one["item_id"]].item, seen[one["item_id"]].reply
        assert one["prompt"] == "\n".join(message.text for message in item.messages)
        assert (one["reply"], one["status"], one["axis"]) == (reply.text, reply.status, item.axis)
        assert one["reading"] == (reply.parsed or reply.status)


async def test_filter_by_status(tmp_path: Path) -> None:
    """A filter gives exactly the replies of that status; unrelated has the wrong choices too; failed are none."""
    path = write_run(tmp_path / "a", mixed)
    lines = (path / "responses.jsonl").read_bytes().splitlines()
    replies = [msgspec.json.decode(line, type=Reply) for line in lines]
    given = {2: {"status": "error", "error": "status 500"}, 4: {"status": "thinking_exhausted", "reasoning": "Hm."}}
    replies = [msgspec.structs.replace(one, **given.get(n, {})) for n, one in enumerate(replies)]
    run_directory.write_replies(path, replies)
    statuses = {status: (status,) for status in ("ok", "unrelated", "refusal", "malformed", "error")}
    async with control_plane(tmp_path) as plane:
        audit_id = await finished(plane, path)
        for status, wanted in (statuses | {"failed": ("error", "thinking_exhausted")}).items():
            found = await pages(plane, audit_id, status=status, limit=7)
            shown = {one["item_id"]: one for page in found for one in page["items"]}
            assert shown.keys() == {
                one.item_id for one in replies if one.status in wanted or (one.status, one.parsed) == ("ok", status)
            }, status

    assert shown[replies[2].item_id]["error"] == "status 500"
    assert shown[replies[4].item_id]["reasoning"] == "Hm."


def by_letter(item: Item) -> str:
    return ("A", "B", HOSTILE)[sum(item.item_id.encode()) % 3]


async def test_filter_by_content_in_sets(tmp_path: Path) -> None:
    """Axis, group, reading and verdict let exactly their replies through, alone or with their sets, and are counted."""
    path = write_run(tmp_path / "a", by_letter, plan(suite="bbq"))
    replies = [one.reply for one in run_directory.observations(path)]
    judged = [msgspec.structs.replace(one, judge={"text": "so"}) if n % 2 else one for n, one in enumerate(replies)]
    run_directory.write_replies(path, judged)
    values = {
        one.item.item_id: {
            "axis": [one.item.axis],
            "group": one.item.groups,
            "reading": [in_words(one.reply)],
            "verdict": [in_words(one.reply)] if one.reply.judge else [],
        }
        for one in run_directory.observations(path)
    }
    async with control_plane(tmp_path) as plane:
        audit_id = await finished(plane, path, suites=["bbq"])
        for name, value in (("axis", "age"), ("group", "old"), ("verdict", "stereotype"), ("reading", "stereotype")):
            found = await pages(plane, audit_id, **{name: value}, limit=9)
            passing = sorted(item_id for item_id, its in values.items() if value in its[name])
            assert [one["item_id"] for page in found for one in page["items"]] == passing
            assert found[0]["choices"][name] == Counter(each for its in values.values() for each in its[name])
        in_sets = await pages(plane, audit_id, reading="stereotype", pairs=True, limit=4)

    shown = [one for page in in_sets for one in page["items"]]
    assert sorted(one["item_id"] for one in shown if not one["is_beside"]) == passing
    sets = [[*of_set] for _, of_set in groupby(shown, itemgetter("set_id"))]
    assert {len(of_set) for of_set in sets} == {4}
    assert len(sets) == len({one["set_id"] for one in shown}) < len(passing)


async def test_what_changed_from_another_run(tmp_path: Path) -> None:
    """Against another run: exactly the items that a comparison calls flipped, with the other run's reply."""
    a, b = write_run(tmp_path / "a", pick("stereotype")), write_run(tmp_path / "b", mixed)
    async with control_plane(tmp_path) as plane:
        one, two = await finished(plane, a), await finished(plane, b)
        found = await pages(plane, one, changed_from=two, limit=11)

    flips, n_flipped = flipped(a, b)
    shown = {item["item_id"]: item for page in found for item in page["items"]}
    assert len(shown) == n_flipped > 0
    assert {flip.item_id: (flip.a.text, flip.b.text, flip.a.reading, flip.b.reading) for flip in flips} == {
        name: (item["reply"], item["other"]["reply"], item["reading"], item["other"]["reading"])
        for name, item in shown.items()
    }


async def test_a_comparison_is_that_of_the_command_line(tmp_path: Path) -> None:
    """Every difference, interval and p value, and every flip, is what `audit compare` finds in the directories."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", mixed, plan(mitigation="abstract"))
    async with control_plane(tmp_path) as plane:
        one, two = await finished(plane, a), await finished(plane, b, mitigation="abstract")
        answer = await plane.http.get("/audits/compare", params={"a": one, "b": two})
        page = await plane.http.get("/audits/compare/report", params={"a": one, "b": two})

    ours, theirs = answer.json(), json.loads(msgspec.json.encode(compare(a, b)))
    assert ours["comparison"]["differing"] == {"mitigation": ["none", "abstract"]}
    assert ours["comparison"] == theirs | {"run_a": one, "run_b": two}
    flips, n_flipped = flipped(a, b)
    assert (ours["n_flipped"], ours["flips"]) == (n_flipped, json.loads(msgspec.json.encode(flips)))
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "<script" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text


async def test_what_cannot_be_compared(tmp_path: Path) -> None:
    """Unknown, unfinished, of another suite, or of other data: one line each that says which and why."""
    path = write_run(tmp_path / "a", mixed)
    seeded = write_run(tmp_path / "b", mixed, plan(seed=3))
    async with control_plane(tmp_path) as plane:
        done = await finished(plane, path)
        other = await finished(plane, seeded)  # its options in the store do not say the seed
        waiting = (await plane.http.post("/audits", json=ASKED)).json()["id"]
        changed = await finished(plane, path)
        renaming = sa.update(tables.runs).where(tables.runs.c.id == changed).values(suite="crows_pairs")
        await plane.database.change_rows(renaming)

        async def refused(a: str, b: str) -> tuple[int, str]:
            answer = await plane.http.get("/audits/compare", params={"a": a, "b": b})
            return answer.status_code, answer.json()["detail"]

        assert await refused(done, "nope") == (404, 'no audit has the id "nope": GET /audits lists them')
        assert await refused(waiting, done) == (409, f"audit {waiting} has no comparison: it is queued")
        words = f'{done} and {changed} cannot be compared: suite is "stereoset" and "crows_pairs"'
        assert await refused(done, changed) == (409, words)
        status, detail = await refused(done, other)
        assert (status, detail.startswith(f"audit {other} cannot be compared: the items")) == (409, True)


async def test_prompts_that_cannot_be_shown(tmp_path: Path) -> None:
    """Without the data set here, replies are shown all the same, and the page says why there is no question."""
    path = write_run(tmp_path / "a", mixed)
    async with control_plane(tmp_path, audits={"data_dir": str(tmp_path / "empty")}) as plane:
        await publish_suites(plane, data="present")
        audit_id = (await plane.http.post("/audits", json=ASKED | {"data": "canonical"})).json()["id"]
        run = await runs.claim(plane.database, audit_id)
        assert run is not None
        line = (path / "responses.jsonl").read_text().splitlines()[0]
        await run_responses.append(plane.database, run, [(json.loads(line)["item_id"], 0, "ok", line)])
        [found] = await pages(plane, audit_id)

    assert "biasgate datasets fetch stereoset" in found["no_prompts_because"]
    [one] = found["items"]
    assert (one["prompt"], one["axis"], one["reply"]) == (None, None, json.loads(line)["text"])


async def test_wrong_pages(tmp_path: Path) -> None:
    """A mistake in what is asked for is one line with the value."""
    path = write_run(tmp_path / "a", mixed)
    async with control_plane(tmp_path) as plane:
        audit_id = await finished(plane, path)
        for query, status, words in (
            ({"after": "nonsense"}, 400, 'after: "nonsense" is not a place in a run'),
            ({"after": "a:-1"}, 400, "is not a place in a run"),
            ({"status": "lost"}, 400, "lost"),
            ({"changed_from": "nope"}, 404, 'no audit has the id "nope"'),
            ({"axis": "gendre"}, 400, 'unknown axis "gendre" (did you mean "gender"?): no item'),
            ({"group": "nobody"}, 400, 'unknown group "nobody" (did you mean "boy"?)'),
        ):
            answer = await plane.http.get(f"/audits/{audit_id}/items", params=query)
            assert answer.status_code == status, query
            assert words in answer.json()["detail"]


async def test_long_texts_and_full_pages(tmp_path: Path) -> None:
    """A reply of 100,000 characters is cut and says so; a page has so much text at most, and the next goes on."""
    path = write_run(tmp_path / "a", lambda item: mixed(item) + "x" * 100_000)
    async with control_plane(tmp_path) as plane:
        found = await pages(plane, await finished(plane, path), limit=200)

    shown = [one for page in found for one in page["items"]]
    assert len({one["item_id"] for one in shown}) == len(shown) == 48
    assert {len(one["reply"]) for one in shown} == {run_items.MOST_CHARACTERS + 2}
    assert max(len(json.dumps(page)) for page in found) < 2 * run_items.PAGE_CHARACTERS


async def test_pages_show_what_models_say_as_text(tmp_path: Path) -> None:
    """Markup in a reply stays words on the console's pages."""
    a, b = write_run(tmp_path / "a", mixed), write_run(tmp_path / "b", pick("stereotype"))
    async with control_plane(tmp_path) as plane:
        one, two = await finished(plane, a), await finished(plane, b)
        addresses = [f"/console/audits/{one}/items", f"/console/audits/compare?a={one}&b={two}"]
        found = [await plane.http.get(address) for address in addresses]

    for answer in found:
        assert answer.status_code == 200
        assert "<script>alert(1)" not in answer.text
        assert "&lt;script&gt;alert(1)" in answer.text


async def test_a_summary_has_no_markup_of_others(tmp_path: Path) -> None:
    """The part of a report that the console shows as HTML escapes names and faults, and does not end at their marks."""
    result = decode((write_run(tmp_path / "a", mixed) / "result.json").read_bytes())
    hostile = "<!--/summary--><script>alert(1)</script>"
    dataset = msgspec.structs.replace(result.dataset, left_out={hostile: 3})
    page = render([msgspec.structs.replace(result, model=hostile, dataset=dataset)])
    shown = cut_summary(cast(runs.Run, SimpleNamespace(report=page)))
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown
    assert 'class="cards"' in shown
    assert headline("half a res", ("ss", None, None, None, None)) == "unreadable"
