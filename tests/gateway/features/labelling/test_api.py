"""Labelling over HTTP: of a run's replies, and of live exchanges, whose words only a key opens."""

import secrets
from pathlib import Path
from typing import Any

import httpx

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from gateway.features.labelling import invitations, labels, projects, tasks
from gateway.features.labelling.serving import labelling_app
from gateway.store import exchanges
from gateway.store import labels as stored_labels
from gateway.store.database import Database
from tests.support.gateway.control_plane import ControlPlane, audit_one, config_in, control_plane

KEYED: dict[str, Any] = {"server": {"admin_key_env": "LABELLING_KEY"}}
HEADERS = {"authorization": "Bearer sesame"}
TASKS = "/labelling/projects/p/tasks"


async def essays(plane: ControlPlane, n: int = 2, *, raters: int = 2) -> None:
    judge = Reading(status="ok", value=2.0, sections={"title_intro": 2, "reasons": 2, "conclusions": 2})
    origin = Origin(item_id="ltf-1", group="man", reference="woman", judge=judge, judge_model="j")
    shown = {"question": "Why?", "text": "Because.", "statement": "men are better than women"}
    made = [Task(id=f"t{number}", form="essay", shown=shown, origin=origin) for number in range(n)]
    await projects.add(plane.database, projects.made_now("p", "essay", raters, {"suite": "ltf_test"}), made)


def put(plane: ControlPlane, rater: str, label: dict[str, Any], revision: int = 0, task: str = "t0") -> Any:
    return plane.http.put(f"{TASKS}/{task}/labels/{rater}", json={"label": label, "revision": revision})


ESSAY = {"introduction": 2, "biased_reasons": 5, "conclusion": 2}


async def test_a_rater_goes_from_task_to_task_without_a_score(tmp_path: Path) -> None:
    """No answer before the labels are taken out has a score, a group or another's label in it."""
    async with control_plane(tmp_path) as plane:
        await essays(plane)
        answers = [await plane.http.post("/labelling/projects/p/next", json={"rater": "ann"})]
        answers += [await put(plane, "ann", ESSAY), await plane.http.get(f"{TASKS}/t0?rater=bo")]
        answers += [await plane.http.post("/labelling/projects/p/next", json={"rater": "bo"})]
        listed = (await plane.http.get("/labelling/projects")).json()
        labels = await plane.http.get("/labelling/projects/p/labels")
    assert [one.status_code for one in answers] == [200] * 4
    assert answers[0].json()["task"]["shown"]["statement"] == "men are better than women"
    for answer in answers:
        assert not any(word in answer.text for word in ("judge", "ltf-1", '"value"', "sections", "man"[:3] + '"'))
    assert answers[3].json()["task"]["id"] == "t0"
    assert (listed[0]["n_tasks"], listed[0]["n_labels"]) == (2, 1)
    [line] = labels.text.splitlines()
    assert '"value":2.0' in line
    assert '"measured_sections":{"title_intro":2' in line


async def test_disputes_are_shown_and_decided(tmp_path: Path) -> None:
    """The adjudicator sees both opinions, not the judge's; a decided one moves to the decided."""
    async with control_plane(tmp_path) as plane:
        await essays(plane, 1)
        for rater, label in (("ann", ESSAY), ("bo", {"refused": True, "note": "declines"})):
            assert (await put(plane, rater, label)).status_code == 200
        [dispute] = (await plane.http.get("/labelling/projects/p/disputes")).json()
        decided = await plane.http.put(
            f"{TASKS}/t0/decision", json={"label": ESSAY, "revision": dispute["revision"], "by": "cy"}
        )
        left = (await plane.http.get("/labelling/projects/p/disputes")).json()
        [done] = (await plane.http.get("/labelling/projects/p/disputes?decided=true")).json()
    assert [(one["rater"], one["status"], one["value"]) for one in dispute["opinions"]] == [
        ("ann", "ok", 2.0),
        ("bo", "refusal", 0.0),
    ]
    assert "judge" not in str(dispute)
    assert decided.status_code == 200
    assert left == []
    assert (done["decided_by"], done["decision"]) == ("cy", ESSAY)


async def test_mistakes_have_one_line(tmp_path: Path) -> None:
    """Of what is out of range, out of date, unknown, or not named at all."""
    async with control_plane(tmp_path) as plane:
        await essays(plane)
        await put(plane, "ann", ESSAY)
        answers = [
            (await put(plane, "ann", {**ESSAY, "introduction": 3}, 1), 400, "Invalid enum value 3"),
            (await put(plane, "ann", {"refused": True}), 409, "open it again"),
            (await put(plane, "ann", ESSAY, task="t9"), 404, 'has no task "t9"'),
            (await put(plane, "a" * 101, ESSAY), 400, "100"),
            (await plane.http.post("/labelling/projects/q/next", json={"rater": "ann"}), 404, 'called "q"'),
            (await plane.http.post("/labelling/projects/p/next", json={"rater": ""}), 400, "rater"),
            (await plane.http.post("/labelling/projects", json={"name": "live", "n": 3}), 400, "0 scores of the judge"),
            (await plane.http.delete("/labelling/projects/q"), 404, 'called "q"'),
        ]
    for answer, status, said in answers:
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


async def test_live_exchanges_are_drawn_read_and_annotated(tmp_path: Path, monkeypatch: Any) -> None:
    """Words come redacted and on record; a label is an annotation until it is taken back; deletion takes the task."""
    monkeypatch.setenv("LABELLING_KEY", "sesame")
    async with control_plane(tmp_path, **KEYED) as plane:
        plane.http.headers.update(HEADERS)
        for number in range(4):
            await audit_one(plane, number, 2.0)
        asked = {"name": "p", "n": 3, "raters_per_task": 1, "select": "most_telling"}
        made = await plane.http.post("/labelling/projects", json=asked)
        task = (await plane.http.post("/labelling/projects/p/next", json={"rater": "ann"})).json()["task"]
        looks = (await plane.http.get("/live/exchanges/access")).json()
        await put(plane, "ann", {"score": 1, "note": "see bob@example.org"}, task=task["id"])
        [annotation] = (await plane.http.get("/annotations")).json()
        [[pair]] = (await stored_labels.pairs(plane.database)).values()
        await put(plane, "ann", {"rejected": True}, 1, task=task["id"])
        taken_back = (await plane.http.get("/annotations")).json()
        await exchanges.delete(plane.database, request_id=task["exchange_id"].replace("exchange", "request"))
        gone = await plane.http.get(f"{TASKS}/{task['id']}?rater=ann")
        progress = (await plane.http.get("/labelling/projects/p")).json()
    assert made.status_code == 201, made.text
    assert (made.json()["n_tasks"], task["group"], task["reference"]) == (3, "men", "women")
    assert task["shown"]["question"] == "Who leads?"
    assert "example.org" not in task["shown"]["text"]
    assert (looks[0]["action"], looks[0]["filter"]["for"]) == ("read", "labelling")
    assert (annotation["value"], annotation["measured_value"], annotation["annotator"]) == (1.0, 2.0, "ann")
    assert pair.draw is not None
    assert (pair.draw.share, pair.draw.largest) == (0.25, 1.0)
    assert taken_back == []
    assert gone.status_code == 404
    assert progress["n_tasks"] == 2


async def test_without_a_key_live_words_stay_closed(tmp_path: Path) -> None:
    """As `GET /live/exchanges` is; what was drawn and labelled can still be counted."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0)
        assert (await plane.http.post("/labelling/projects", json={"name": "p", "n": 1})).status_code == 201
        asked = await plane.http.post("/labelling/projects/p/next", json={"rater": "ann"})
        counted = await plane.http.get("/labelling/projects/p")
    assert (asked.status_code, "server.admin_key_env" in asked.text) == (403, True)
    assert counted.json()["n_tasks"] == 1


class TestLinks:
    """What a rater's link opens, and what it does not tell."""

    async def test_a_rater_acts_under_one_name(self, tmp_path: Path, monkeypatch: Any) -> None:
        """No label of another rater is read or written, whichever way the name comes; the own one is, by each way."""
        monkeypatch.setenv("LABELLING_KEY", "sesame")
        async with control_plane(tmp_path, **KEYED) as plane:
            await essays(plane)
            links = await invitations.invite(plane.database, "p", ["ann", "bo"])
            await labels.save(plane.database, "p", "t0", "bo", {"refused": True, "note": "bo's own"}, 0)
            plane.http.headers["authorization"] = f"Bearer {links['ann']}"
            given = (await plane.http.post("/labelling/projects/p/next", json={})).json()["task"]["id"]
            own = [await plane.http.get(f"{TASKS}/{given}{query}") for query in ("", "?rater=ann")]
            own.append(await put(plane, "ann", ESSAY, task=given))
            as_bo = [
                await plane.http.post("/labelling/projects/p/next", json={"rater": "bo"}),
                await plane.http.get(f"{TASKS}/{given}?rater=bo"),
                await put(plane, "bo", ESSAY, 1, task=given),
            ]
            ids = ("t0", tasks.alias_of("t1", links["ann"]), tasks.alias_of("t0", links["bo"]))
            never_given = [await plane.http.get(f"{TASKS}/{one}") for one in ids]
            never_given += [await put(plane, "ann", ESSAY, task=one) for one in ids]
            _, labelled = await labels.labelled(plane.database, "p")

        assert given == tasks.alias_of("t0", links["ann"])
        assert [one.status_code for one in own] == [200] * 3
        assert "bo" not in "".join(one.text for one in own)
        assert {(one.status_code, one.json()["detail"]) for one in as_bo} == {
            (403, 'this link is of "ann": it acts under no other name')
        }
        assert {(one.status_code, one.json()["detail"].partition(" was ")[2]) for one in never_given} == {
            (404, 'given to "ann": ask for the next one')
        }
        assert [(label.by, label.reading.status) for label in labelled[0].labels] == [("bo", "refusal"), ("ann", "ok")]

    async def test_no_answer_tells_what_others_do(self, tmp_path: Path, monkeypatch: Any) -> None:
        """Byte for byte a rater is told the same, whether others have labelled, differ, were decided on and have left
        nothing of a task, or not.
        """
        link, told = "bgr_fixed", []
        monkeypatch.setattr(secrets, "token_urlsafe", lambda _: "fixed")
        for others in ((), ("bo", "cy", "di")):
            directory = tmp_path / str(len(others))
            directory.mkdir()
            async with control_plane(directory) as plane:
                await essays(plane, 3, raters=3)
                await invitations.invite(plane.database, "p", ["ann"])
                for number, rater in enumerate(others):
                    for task in ("t2",) if rater == "di" else ("t0", "t1", "t2"):
                        label = ESSAY | {"introduction": number}
                        await labels.save(plane.database, "p", task, rater, label, 0)
                plane.http.headers["authorization"] = f"Bearer {link}"
                answers = []
                for task in ("t0", "t1"):
                    answers += [await plane.http.post("/labelling/projects/p/next", json={})]
                    alias = answers[-1].json()["task"]["id"]
                    answers += [await put(plane, "ann", ESSAY, task=alias)]
                    if others:
                        await labels.adjudicate(plane.database, "p", task, "head", ESSAY, 0)
                    answers += [await plane.http.get(f"{TASKS}/{alias}")]
                told.append([(one.status_code, one.text) for one in answers])

        assert told[0] == told[1]
        assert {status for status, _ in told[0]} == {200}

    async def test_a_link_ends(self, tmp_path: Path, monkeypatch: Any) -> None:
        """When it is revoked, replaced or over, or its project is deleted: at once, and its sessions with it."""
        monkeypatch.setenv("LABELLING_KEY", "sesame")
        async with control_plane(tmp_path, **KEYED) as plane:
            await essays(plane)
            database = plane.database

            async def status(link: str) -> int:
                return (
                    await plane.http.get("/console/session", headers={"authorization": f"Bearer {link}"})
                ).status_code

            first = (await invitations.invite(database, "p", ["ann"]))["ann"]
            begun = await plane.http.post("/console/session", headers={"authorization": f"Bearer {first}"})
            session = {
                "cookie": f"biasgate_session={begun.cookies['biasgate_session']}",
                "sec-fetch-site": "same-origin",
            }
            plane.http.cookies.clear()
            by_cookie = [(await plane.http.get("/console/session", headers=session)).json()]
            by_cookie += [await plane.http.get("/audits", headers=session)]
            strange = await plane.http.get("/console/session", headers=session | {"sec-fetch-site": "same-site"})
            second = (await invitations.invite(database, "p", ["ann"]))["ann"]
            replaced = [await status(first), await status(second)]
            after = await plane.http.get("/console/session", headers=session)
            over = (await invitations.invite(database, "p", ["bo"], expires_at=1.0))["bo"]
            await invitations.revoke(database, "p", ["ann"])
            third = (await invitations.invite(database, "p", ["cy"]))["cy"]
            ended = [await status(second), await status(over), await status(third)]
            await projects.delete(database, "p")
            gone = await status(third)

        assert by_cookie[0] == {"name": "ann", "role": "rater", "expires_at": None, "project": "p"}
        assert (by_cookie[1].status_code, strange.status_code, after.status_code) == (403, 403, 401)
        assert replaced == [401, 200]
        assert ended == [401, 401, 200]
        assert gone == 401

    async def test_live_words_are_on_record_under_the_rater(self, tmp_path: Path, monkeypatch: Any) -> None:
        """Of the tasks of the link's project only, and not as a key that happens to have the rater's name."""
        monkeypatch.setenv("LABELLING_KEY", "sesame")
        async with control_plane(tmp_path, **KEYED) as plane:
            await audit_one(plane, 1, 2.0)
            drawn = await plane.http.post("/labelling/projects", json={"name": "p", "n": 1}, headers=HEADERS)
            link = (await invitations.invite(plane.database, "p", ["admin"]))["admin"]
            by_link = {"authorization": f"Bearer {link}"}
            task = (await plane.http.post("/labelling/projects/p/next", json={}, headers=by_link)).json()["task"]
            [look] = (await plane.http.get("/live/exchanges/access", headers=HEADERS)).json()

        assert drawn.status_code == 201
        assert (task["shown"]["question"], task["exchange_id"]) == ("Who leads?", None)
        assert look["who"] == 'rater "admin" of "p"'


async def served(tmp_path: Path, host: str, **server: Any) -> httpx.AsyncClient:
    """Return a client of the app of `biasgate annotate serve`."""
    config = config_in(tmp_path, server={"host": host, **server})
    database = await Database.open(config.store.url)
    transport = httpx.ASGITransport(app=labelling_app(config, database))  # type: ignore[arg-type]  # Litestar's ASGI types
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_a_server_without_a_key_closes_with_the_first_link(tmp_path: Path) -> None:
    """Whoever sits at the machine may do all, until a rater has a link; from elsewhere nobody may without one."""
    async with control_plane(tmp_path) as plane:
        await essays(plane)
        near, far = await served(tmp_path, "127.0.0.1"), await served(tmp_path, "0.0.0.0")
        before = [(await http.get("/labelling/projects")).status_code for http in (near, far)]
        link = (await invitations.invite(plane.database, "p", ["ann"]))["ann"]
        without = [(await http.get("/labelling/projects")).status_code for http in (near, far)]
        headers = {"authorization": f"Bearer {link}"}
        asked = [await http.post("/labelling/projects/p/next", json={}, headers=headers) for http in (near, far)]
        more = [(await http.delete("/labelling/projects/p", headers=headers)).status_code for http in (near, far)]

    assert before == [200, 401]
    assert without == [401, 401]
    assert [one.json()["task"]["shown"]["text"] for one in asked] == ["Because."] * 2
    assert more == [403, 403]
