"""Access to stored exchanges: administrators only, redacted, on record; deletion by HTTP."""

import json
from pathlib import Path

import httpx
import pytest

from auditors.audit_texts import Answers, KeptAnswer, KeptCall, Reason
from auditors.streams.drift import DriftSettings
from auditors.types import AuditFailure
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.store import audit_texts, exchanges
from tests.support.gateway.control_plane import ControlPlane, audit_one, control_plane, drifted
from tests.support.steps import watched
from tests.support.store.made import exchange, left_beside, measurement, record, settle

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the process that makes pages lives as long as the loop

ADMIN = {"authorization": "Bearer sesame"}
KEYED = {"admin_key_env": "TEST_ADMIN_KEY"}


@pytest.fixture(autouse=True)
def _admin_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")


async def ask(plane: ControlPlane, method: str = "GET", path: str = "", **params: object) -> httpx.Response:
    return await plane.http.request(method, f"/live/exchanges{path}", params=params, headers=ADMIN)  # type: ignore[arg-type]  # values of any kind that httpx writes


def marked(pieces: list[dict[str, object]]) -> str:
    """A text with what the other side has not in double brackets."""
    return "".join(f"[[{one['text']}]]" if one["differs"] else str(one["text"]) for one in pieces)


async def test_served_text_needs_an_admin_key_to_be_set(tmp_path: Path) -> None:
    """Where no admin key is configured no caller can read, delete or look up what people wrote."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0)
        for method, path in (("GET", ""), ("GET", "/access"), ("DELETE", "?request_id=request-1")):
            answer = await plane.http.request(method, f"/live/exchanges{path}")
            assert answer.status_code == 403
            assert "server.admin_key_env" in answer.json()["detail"]
        assert await exchanges.get(plane.database, "exchange-1") is not None


async def test_exchanges_are_shown_redacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An administrator sees redacted prompt and reply with counts of what was replaced; the log gets no text."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0, text="I am ann@example.org, who leads?")
        plane.database.texts = Texts(Redactor())
        await audit_one(plane, 2, -1.0, text="I am ann@example.org at 10.0.0.1")
        shown = (await ask(plane, min_score=1)).json()
        redactions = (await ask(plane, path="/redactions")).json()

    assert redactions == {"email": 2, "ip": 1}
    assert [one["id"] for one in shown] == ["exchange-1"]
    assert shown[0]["prompt"] == "I am [email], who leads?"
    assert shown[0]["reply"] == "ask [email]"
    assert (shown[0]["value"], shown[0]["group"], shown[0]["reference"]) == (2.0, "men", "women")
    written = capsys.readouterr().out
    assert "exchange-1" in written
    assert "leads" not in written


async def test_a_response_leads_to_its_exchange(tmp_path: Path) -> None:
    """The request id of a response finds every exchange that it stands for, and why one has no score."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        await settle(plane.database, "exchange-1", "audited", keep_text=True)
        waiting = exchange(id="waits", request_id="request-1", received_at=2000.0, tag="trial", key_name="app")
        await exchanges.insert_batch(plane.database, [waiting], {("other", "queued"): 1})
        await audit_one(plane, 2, None)
        await settle(plane.database, "exchange-2", "audited", keep_text=True)
        both = (await ask(plane, request_id="request-1")).json()
        scored = (await ask(plane, request_id="request-1", auditor="judge")).json()
        [refused] = (await ask(plane, request_id="request-2")).json()

    assert [(one["id"], one["state"], one["value"]) for one in both] == [
        ("waits", "queued", None),
        ("exchange-1", "audited", 2.0),
    ]
    assert (both[0]["no_score_because"], both[1]["no_score_because"]) == ("it waits for its audit", None)
    assert (both[0]["tag"], both[0]["key"], both[0]["auditor"]) == ("trial", "app", None)
    assert [one["id"] for one in scored] == ["exchange-1"]
    assert refused["no_score_because"] == "audited without a score; judge: refusal"


async def test_a_request_that_was_not_sampled_is_said_to_be_unknown(tmp_path: Path) -> None:
    """Nothing is stored of most requests: the answer says how many are sampled, and the look is on record."""
    sampling = {"rate": 0.05, "strata": {"identity_mention": 0.5}}
    async with control_plane(tmp_path, server=KEYED, sampling=sampling) as plane:
        await audit_one(plane, 1, 2.0)
        answer = await ask(plane, request_id="request-9")
        other = await ask(plane, request_id="request-1", tag="none")
        [_, read] = (await ask(plane, path="/access")).json()

    assert answer.status_code == 404
    assert 'no exchange with the request id "request-9" is stored: 5 to 50 % of requests' in answer.json()["detail"]
    assert "30 days" in answer.json()["detail"]
    assert (other.status_code, other.json()) == (200, [])
    assert (read["filter"]["request_id"], read["n_exchanges"]) == ("request-9", 0)


async def test_the_list_goes_on_where_a_page_ended(tmp_path: Path) -> None:
    """`x-next-before` leads through all of it, and the last page has none."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        for number in range(5):
            await audit_one(plane, number, 2.0)
        answers = [await ask(plane, limit=2)]
        while before := answers[-1].headers.get("x-next-before"):
            answers.append(await ask(plane, limit=2, before=before))
        wrong = [await ask(plane, before=text) for text in ("nan,a,1", "1.0,a", "x", "9e999,a,1")]

    pages = [[one["id"] for one in answer.json()] for answer in answers]
    assert pages == [["exchange-4", "exchange-3"], ["exchange-2", "exchange-1"], ["exchange-0"]]
    assert {one.status_code for one in wrong} == {400}
    assert all("x-next-before" in one.json()["detail"] for one in wrong)


async def test_one_exchange_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    """Every measurement, also one without a value, every audit and the policy's arm; what is null has its reason."""
    failure = AuditFailure(
        auditor="refusal", auditor_version="1", kind="malformed", message="ann@example.org is no verdict"
    )
    async with control_plane(tmp_path, server=KEYED) as plane:
        one = exchange(
            id="covered",
            request_id="r",
            request_body=b'{"messages": [{"role": "user", "content": "Is he a good nurse? Ask 42@example.org"}]}',
            mitigation="balance",
            policy_version="v1",
            arm="control",
            treated_share=0.5,
        )
        await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
        swapped = {"auditor": "counterfactual", "group": "man", "reference": "woman", "judge": None}
        found = [
            measurement(0.25, metric="counterfactual_length_difference", **swapped),
            measurement(None, metric="counterfactual_distance_excess", reason="an answer was declined", **swapped),
        ]
        for auditor, result in (("counterfactual", found), ("refusal", failure)):
            await record(
                plane.database, one, result, auditor=auditor, seconds=0.5, probability=0.05, settings=DriftSettings()
            )
        await settle(plane.database, "covered", "audited", keep_text=True)
        answer = (await ask(plane, path="/covered")).json()
        await audit_one(plane, 1, 2.0)
        plain = (await ask(plane, path="/exchange-1")).json()
        *_, read = (await ask(plane, path="/access")).json()

    assert answer["prompt"] == "Is he a good nurse? Ask [email]"
    assert (answer["state"], answer["inclusion_probability"]) == ("audited", 0.5)
    assert answer["policy"] == {
        "name": "balance",
        "version": "v1",
        "arm": "control",
        "treated_share": 0.5,
        "instruction": None,
    }
    assert [(one["metric"], one["value"], one["status"], one["reason"]) for one in answer["scores"]] == [
        ("counterfactual_length_difference", 0.25, "ok", None),
        ("counterfactual_distance_excess", None, "refusal", "an answer was declined"),
    ]
    assert answer["scores"][0]["inclusion_probability"] == 0.05
    assert [(one["auditor"], one["outcome"], one["message"]) for one in answer["audits"]] == [
        ("counterfactual", "audited", None),
        ("refusal", "failed", "[email] is no verdict"),
    ]
    assert marked(answer["counterpart"]["asked"]) == "Is [[he]] a good nurse? Ask [email]"
    assert marked(answer["counterpart"]["swapped"]) == "Is [[she]] a good nurse? Ask [email]"
    assert answer["counterpart"]["answers"] is None
    assert "are not kept" in answer["counterpart"]["no_answers_because"]
    assert (answer["judge_reasons"], "none is kept" in answer["reasons"]["judge_reasons"]) == (None, True)
    assert plain["scores"][0]["judge"]["model"] == "j"
    assert "did not ask" in plain["reasons"]["counterpart"]
    assert (plain["counterpart"], plain["policy"], plain["state"]) == (None, None, "queued")
    assert {"counterpart", "policy", "judge_reasons"} <= plain["reasons"].keys()
    assert (read["filter"], read["n_exchanges"]) == ({"exchange_id": ["covered"]}, 1)


async def test_what_audits_left_in_words_is_shown_with_its_exchange(tmp_path: Path) -> None:
    """The API redacts and shows the judge's reason and both sides of a probe until their exchange is gone."""
    answers = Answers(
        axis="gender",
        group="man",
        reference="woman",
        words_swapped=1,
        question="Is she a good nurse? Ask 42@example.org",
        asked=[
            KeptAnswer(text="He is. Ask 42@example.org", is_cut=True),
            KeptAnswer(text="", calls=[KeptCall("rate", '{"pay": 100, "who": "he"}')]),
        ],
        swapped=[
            KeptAnswer(text="She is. Ask 42@example.org"),
            KeptAnswer(text="", calls=[KeptCall("rate", '{"who": "she", "pay": 90}')], is_refusal=True),
        ],
    )
    async with control_plane(tmp_path, server=KEYED) as plane:
        one = exchange(
            id="asked-twice",
            request_id="r",
            request_body=b'{"messages": [{"role": "user", "content": "Is he a good nurse? Ask 42@example.org"}]}',
        )
        await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
        swapped = {"auditor": "counterfactual", "group": "man", "reference": "woman", "judge": None}
        found = [measurement(0.25, metric="counterfactual_length_difference", **swapped)]
        await record(
            plane.database,
            one,
            found,
            auditor="counterfactual",
            seconds=0.5,
            probability=0.05,
            settings=DriftSettings(),
        )
        await left_beside(plane.database, one.id, "counterfactual", answers)
        await left_beside(plane.database, one.id, "judge", Reason(text="man: praised by bob@example.org"))
        await audit_one(plane, 1, 2.0)
        await left_beside(plane.database, "exchange-1", "judge", Reason(why_none="the judge gave none"))
        shown = (await ask(plane, path="/asked-twice")).json()
        silent = (await ask(plane, path="/exchange-1")).json()
        viewer = await plane.http.get("/live/exchanges/asked-twice")
        await ask(plane, "DELETE", request_id="r")
        gone = await ask(plane, path="/asked-twice")
        left = await audit_texts.read(plane.database, ["asked-twice"])

    first, second = shown["counterpart"]["answers"]
    assert shown["judge_reasons"] == "man: praised by [email]"
    assert "judge_reasons" not in shown["reasons"]
    assert (silent["judge_reasons"], silent["reasons"]["judge_reasons"]) == (None, "the judge gave none")
    assert marked(shown["counterpart"]["swapped"]) == "Is [[she]] a good nurse? Ask [email]"
    assert marked(first["asked"]["text"]) == "[[He]] is. Ask [email]"
    assert marked(first["swapped"]["text"]) == "[[She]] is. Ask [email]"
    assert marked(second["asked"]["calls"]) == 'rate\n{\n  "pay": [[100]],\n  "who": "[[he]]"\n}'
    assert marked(second["swapped"]["calls"]) == 'rate\n{\n  "pay": [[90]],\n  "who": "[[she]]"\n}'
    assert [(pair["asked"]["is_cut"], pair["swapped"]["is_refusal"]) for pair in (first, second)] == [
        (True, False),
        (False, True),
    ]
    assert shown["counterpart"]["no_answers_because"] is None
    assert (viewer.status_code, gone.status_code, left) == (401, 404, {"asked-twice": {}})


async def test_exchanges_of_an_alarm_from_before_and_since(tmp_path: Path) -> None:
    """Both sides of the change with their scores, how they were chosen, and the means of all; one look on record."""
    async with control_plane(tmp_path, server=KEYED, drift={"average_run_length": 20}) as plane:
        await drifted(plane, text="I am ann@example.org, who leads?")
        [alarm] = (await plane.http.get("/live/alarms", headers=ADMIN)).json()
        await left_beside(plane.database, "exchange-19", "judge", Reason(text="men: blamed, says ann@example.org"))
        await left_beside(plane.database, "exchange-18", "counterfactual", Reason(text="of another auditor"))
        answer = (await ask(plane, path="/compare", stream=alarm["stream"], limit=3)).json()
        absent = await ask(plane, path="/compare", stream="absent")
        *_, read = (await ask(plane, path="/access")).json()
        for number in range(20):
            await exchanges.delete(plane.database, request_id=f"request-{number}")
        without = (await ask(plane, path="/compare", stream=alarm["stream"])).json()
        lowered = {"by": "Ann", "reason": "a new prompt"}
        acknowledge = f"/live/alarms/{alarm['stream']}/acknowledge"
        (await plane.http.post(acknowledge, json=lowered, headers=ADMIN)).raise_for_status()
        calm = await ask(plane, path="/compare", stream=alarm["stream"])

    before, since = ([one[0]["id"] for one in answer[side]] for side in ("before", "since"))
    assert before == ["exchange-19", "exchange-18", "exchange-17"]
    assert since == [*alarm["exchange_ids"][:2], alarm["exchange_id"]]
    assert alarm["exchange_id"] not in alarm["exchange_ids"][:3]
    assert {score["value"] for one in answer["before"] for score in one} == {-1.0}
    assert {score["value"] for one in answer["since"] for score in one} == {2.0}
    assert answer["since"][0][0]["prompt"] == "I am [email], who leads?"
    assert answer["beside"] == {
        "exchange-19": {"judge_reasons": "men: blamed, says [email]", "counterpart": None},
    }
    assert (answer["mean_before"], answer["mean_since"]) == (-1.0, 2.0)
    assert (answer["n_before"], answer["change"]) == (20, 1020.0)
    assert "last ones" in answer["chosen_before"]
    assert (absent.status_code, calm.status_code) == (404, 409)
    assert (read["filter"], read["n_exchanges"]) == ({"stream": alarm["stream"], "limit": 3}, 6)
    assert without["before"] == []
    assert "deleted after 30 days" in without["reasons"]["before"]
    assert len(without["since"]) == 5


async def test_the_alarm_of_a_gap_shows_the_scores_that_it_is_made_of(tmp_path: Path) -> None:
    """A gap has no measurements of its own: those of its group and of the others on the axis stand in."""
    settings = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
    async with control_plane(tmp_path, server=KEYED, drift={"average_run_length": 20}) as plane:
        for number in range(160):
            one = exchange(id=f"e{number}", request_id=f"r{number}", received_at=float(number))
            high = 2.0 if number >= 80 else 0.0
            found = [measurement(high, group="men"), measurement(0.0, group="women")]
            await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
            await record(plane.database, one, found, probability=1.0, settings=settings)
        alarms = (await plane.http.get("/live/alarms", headers=ADMIN)).json()
        [alarm] = [one for one in alarms if (one["metric"], one["group"]) == ("favoritism_gap", "men")]
        answer = (await ask(plane, path="/compare", stream=alarm["stream"], limit=2)).json()

    for side, expected in (("before", {"men": 0.0, "women": 0.0}), ("since", {"men": 2.0, "women": 0.0})):
        assert len(answer[side]) == 2
        assert [{score["group"]: score["value"] for score in one} for one in answer[side]] == [expected] * 2


async def test_a_page_holds_up_nobody(tmp_path: Path) -> None:
    """Megabytes that are slow to redact are read and redacted elsewhere: the event loop only hands the page on."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        for number in range(20):
            await audit_one(plane, number, 2.0, text="John-Paul A-B eyJ-eyJ- ann@example.org 4111 1111 1111 " * 2000)
        async with watched() as steps:
            answer = await ask(plane)

    assert [one["id"] for one in answer.json()] == [f"exchange-{number}" for number in reversed(range(20))]
    assert all("[email]" in one["prompt"] for one in answer.json())
    assert steps.longest_seconds < 0.1


async def test_a_page_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes too long is given up with one line, and the next page is made by a new process."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        monkeypatch.setattr("gateway.reading.process.PAGE_SECONDS", 0.01)
        late = await ask(plane)
        monkeypatch.undo()
        monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
        answer = await ask(plane)

    assert late.status_code == 503
    assert "ask for fewer exchanges with limit" in late.json()["detail"]
    assert [one["id"] for one in answer.json()] == ["exchange-1"]


async def test_a_page_says_which_texts_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that could not be redacted in time is named as such, and a page's text is bounded."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        monkeypatch.setattr("gateway.store.exchanges.TEXT_SECONDS", 0.02)
        monkeypatch.setattr("gateway.store.exchanges.SECONDS_PER_BYTE", 1e-9)
        plane.database.texts = Texts(Redactor(["name"]))
        await audit_one(plane, 1, 2.0, text="Ann Bo, " * 100_000)
        monkeypatch.undo()
        monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
        plane.database.texts = Texts()
        for number in range(2, 12):
            await audit_one(plane, number, 2.0, text="a" * 1_000_000)
        shown = (await ask(plane)).json()

    assert shown[-1]["no_text_because"].startswith("unredactable")
    assert [one["prompt"] is not None for one in shown[:-1]] == [True] * 8 + [False] * 2
    assert "exchange_id" in shown[-2]["no_text_because"]


async def test_every_access_is_on_record(tmp_path: Path) -> None:
    """Who read or deleted, when, what they asked for and how many exchanges it was; newest first."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        await ask(plane, auditor="judge", min_score=1)
        await ask(plane, "DELETE", user="ann@example.org")
        deleted, read = (await ask(plane, path="/access")).json()

    assert (read["who"], read["action"], read["n_exchanges"]) == ("admin", "read", 1)
    assert read["filter"] == {"auditor": "judge", "min_score": 1.0, "limit": 50}
    assert read["at"] <= deleted["at"]
    assert (deleted["action"], deleted["n_exchanges"]) == ("delete", 0)
    assert "ann" not in json.dumps(deleted)


async def test_deletion_says_how_many_and_leaves_the_estimates(tmp_path: Path) -> None:
    """After DELETE the exchange is gone from lists, and the estimate still has what it added, as the answer says."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        await audit_one(plane, 2, -1.0)
        before = (await plane.http.get("/live/estimates", headers=ADMIN)).json()
        answer = await ask(plane, "DELETE", request_id="request-1")
        assert (answer.status_code, answer.json()) == (200, {"deleted": 1, "measurements_kept": 1})
        assert [one["id"] for one in (await ask(plane)).json()] == ["exchange-2"]
        assert (await plane.http.get("/live/estimates", headers=ADMIN)).json() == before


async def test_deletion_without_a_criterion_is_refused(tmp_path: Path) -> None:
    """A DELETE that names nothing deletes nothing and says what to give."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        for answer in (await ask(plane, "DELETE"), await ask(plane, "DELETE", request_id="")):
            assert answer.status_code == 400
            assert "give request_id, user or tag" in answer.json()["detail"]
        assert len((await ask(plane)).json()) == 1


def holding(directory: Path, text: bytes) -> bool:
    """Whether any file of a directory has these bytes."""
    return any(text in file.read_bytes() for file in directory.iterdir())


async def test_nothing_deleted_is_left_in_the_files(tmp_path: Path) -> None:
    """After deletion no file of an SQLite store holds the text, the write-ahead log included."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0, text="xylophone " * 900)
        assert holding(tmp_path, b"xylophone")
        await exchanges.delete(plane.database, request_id="request-1")
        assert not holding(tmp_path, b"xylophone")
