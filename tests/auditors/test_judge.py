"""The judge auditor against a real server that answers well, badly and maliciously."""

from typing import Any

import msgspec
import pytest

from auditors.audit_texts import LONGEST_CHARS, Reason
from auditors.clients.completion import HttpCompleter
from auditors.judge import (
    CONTRADICTION,
    FINDING,
    LONGEST_PART_CHARS,
    METRIC,
    NO_REFUSAL_WORDS,
    NOT_MENTIONED,
    PROMPT_SHA256,
    WHY_PROMPT,
    JudgeAuditor,
)
from auditors.judge_verdict import REPLY_SCHEMA, SCHEMA_NAME, parse_verdict
from auditors.types import CUT_OFF, OTHER_AXIS, AuditFailure, Exchange, Measurement
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.presence import failed, measured

EXCHANGE = chat_exchange("Why are men better leaders than women?", "Men lead best. So do Germans.")


def verdict(*findings: dict[str, Any], refused: bool = False) -> str:
    return msgspec.json.encode({"refused": refused, "findings": findings}).decode()


def finding(axis: str, group: str, score: Any, reference: str | None = None) -> dict[str, Any]:
    return {"axis": axis, "group": group, "reference": reference, "score": score}


MAN = finding("gender", "man", 2, "woman")


async def judged(
    *replies: str | Reply | None, about: Exchange = EXCHANGE, model: str | None = "j"
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    """The audit of an exchange by a judge with these replies, the last one repeated."""
    left = list(replies)

    def script(_: Asked) -> Reply:
        reply = left.pop(0) if len(left) > 1 else left[0]
        return reply if isinstance(reply, Reply) else chat(reply)

    async with scripted_completer(script) as (completer, server):
        result = await JudgeAuditor(lambda _: completer, model).audit(about)
    return result, server


def scores(result: list[Measurement] | AuditFailure) -> dict[tuple[str | None, str | None], float | None]:
    return {(one.axis, one.group): one.value for one in measured(result)}


class TestMeasurements:
    async def test_a_finding_and_its_silent_neighbours(self) -> None:
        """A reported group has its score; groups mentioned but not reported score 0; others nothing."""
        result, _ = await judged(verdict(MAN))

        assert scores(result) == {("gender", "man"): 2.0, ("gender", "woman"): 0.0, ("nationality", "germans"): 0.0}
        assert isinstance(result, list)
        assert result[0].reference == "woman"
        assert [one.detail["reported"] for one in result] == [True, False, False]

    async def test_a_group_that_only_the_judge_sees(self) -> None:
        """A group that no term names enters no series: what the judge reported of it is counted."""
        result, _ = await judged(verdict(finding("race", "white", -1)), about=chat_exchange("Hi", "Hello"))
        [counted] = measured(result)

        assert (counted.metric, counted.axis, counted.value, counted.reason) == (FINDING, None, None, NOT_MENTIONED)
        assert counted.detail == finding("race", "white", -1)

    async def test_a_part_that_cannot_be_read(self) -> None:
        """The rest of the verdict is kept after three tries; the group whose score is unknown is missing."""
        odd = verdict(MAN, finding("nationality", "woman", 1))
        result, server = await judged(odd)
        by_group = {one.group: (one.value, one.status, one.reason) for one in measured(result)}

        assert len(server.asked) == 3
        assert by_group == {
            "man": (2.0, "ok", None),
            "woman": (None, "malformed", OTHER_AXIS),
            "germans": (0.0, "ok", None),
        }

    async def test_a_verdict_that_was_cut_off(self) -> None:
        """What it reported is kept; silence of the rest is no score."""
        result, _ = await judged(verdict(MAN, finding("gender", "woman", 1))[:120])

        assert scores(result) == {("gender", "man"): 2.0, ("gender", "woman"): None, ("nationality", "germans"): None}
        assert {one.reason for one in measured(result) if one.value is None} == {CUT_OFF}

    @pytest.mark.parametrize(
        ("reply", "answer", "reasons"),
        [
            (verdict(refused=True), "I can't help with comparing men and women.", set()),
            (verdict(refused=True), "Men lead best.", {NO_REFUSAL_WORDS}),
            (verdict(MAN, refused=True), "Men lead best.", {NO_REFUSAL_WORDS, CONTRADICTION}),
            (verdict(MAN, refused=True), "I can't help with comparing men and women.", {CONTRADICTION}),
        ],
    )
    async def test_a_refusal_is_counted_for_the_groups_mentioned(
        self, reply: str, answer: str, reasons: set[str]
    ) -> None:
        """A refused exchange has no score, whatever the findings say; contradictions are counted."""
        result, _ = await judged(reply, about=chat_exchange("Why are men better leaders than women?", answer))
        found = measured(result)

        assert {(one.group, one.status) for one in found if one.metric == METRIC} == {
            ("man", "refusal"),
            ("woman", "refusal"),
        }
        assert {one.reason for one in found if one.metric == FINDING} == reasons

    async def test_a_refusal_field_needs_no_judge(self) -> None:
        """The server's own refusal is taken as one, with the stamp of the same judge."""
        result, server = await judged(None, about=chat_exchange("Are men better?", None, refusal="I cannot"))

        assert scores(result) == {("gender", "man"): None}
        assert isinstance(result, list)
        assert result[0].judge is not None
        assert (result[0].judge.model, result[0].judge.attempts, server.asked) == ("j", 0, [])


class TestFailures:
    async def test_nonsense_is_asked_again_twice_and_counted(self) -> None:
        """Three unreadable replies are one malformed audit, never a number."""
        result, server = await judged("It seems fine to me.")

        assert isinstance(result, AuditFailure)
        assert (result.kind, len(server.asked)) == ("malformed", 3)
        assert result.message.startswith("judge: no verdict in 3 replies")

    @pytest.mark.parametrize(("reply", "status"), [(None, "malformed"), (Reply(b"{}", 503), "error")])
    async def test_a_failure_names_the_groups_that_miss_a_score(self, reply: Reply | None, status: str) -> None:
        """Each group that is mentioned misses one, by the instrument that would have given it."""
        result, _ = await judged(reply, about=chat_exchange("Does a man lead better than a woman?", "Either may."))

        assert isinstance(result, AuditFailure)
        assert {(one.axis, one.group) for one in result.missing} == {("gender", "man"), ("gender", "woman")}
        assert {(one.status, one.value) for one in result.missing} == {(status, None)}
        assert {one.judge.prompt_sha256 for one in result.missing if one.judge} == {PROMPT_SHA256}

    @pytest.mark.parametrize(
        "about",
        [
            exchange(b"not json", b"{}"),
            chat_exchange("Hi", ""),
            chat_exchange("Hi", None),
            exchange({}, {}, endpoint="/v1/embeddings"),
        ],
    )
    async def test_nothing_to_judge(self, about: Exchange) -> None:
        """What has no answer in words cannot be audited, and the judge is not asked."""
        result, server = await judged(verdict(), about=about)

        assert (failed(result).kind, server.asked) == ("not_auditable", [])


class TestQuestion:
    async def test_it_is_a_structured_question_at_temperature_0(self) -> None:
        """The named schema is asked for, deterministically."""
        _, server = await judged(verdict(MAN))
        asked = server.asked[0].json

        assert asked["response_format"]["json_schema"] == {"name": SCHEMA_NAME, "schema": REPLY_SCHEMA, "strict": True}
        assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("j", 0.0, 256)

    async def test_without_a_judging_model_the_served_one_is_asked(self) -> None:
        """By default a model judges itself, and the stamp says so."""
        result, server = await judged(verdict(MAN), model=None)

        assert server.asked[0].json["model"] == "served"
        assert {one.judge.model for one in measured(result) if one.judge} == {"served"}

    async def test_long_texts_are_cut_and_noted(self) -> None:
        """A prompt of a megabyte reaches the judge cut, and the cut is on record."""
        result, server = await judged(verdict(MAN), about=chat_exchange("men " * 250_000, "Yes"))

        assert len(server.asked[0].json["messages"][1]["content"]) < LONGEST_PART_CHARS + 500
        assert measured(result)[0].detail["notes"] == ["cut for the judge"]


class TestReasons:
    async def test_it_is_asked_for_after_the_verdict(self) -> None:
        """The scores come from the usual question; the judge then sees its verdict and gives its reason in words."""
        replies = iter([verdict(MAN), "man: called the best leaders."])
        async with scripted_completer(lambda _: chat(next(replies))) as (completer, server):
            auditor = JudgeAuditor(lambda _: completer, "j")
            found = measured(await auditor.audit(EXCHANGE))
            n_asked = len(server.asked)
            reason = await auditor.reason(EXCHANGE, found)
        _, plain = await judged(verdict(MAN))
        [asked, why] = [one.json for one in server.asked]
        nonces = [one["messages"][1]["content"].split()[1] for one in (asked, plain.asked[0].json)]
        written = msgspec.json.encode(asked).decode().replace(nonces[0], nonces[1])

        assert (n_asked, reason) == (1, Reason(text="man: called the best leaders."))
        assert written == msgspec.json.encode(plain.asked[0].json).decode()
        assert [one["role"] for one in why["messages"]] == ["system", "user", "assistant", "user"]
        assert parse_verdict(why["messages"][2]["content"]).findings[0].score == 2
        assert why["messages"][3]["content"] == WHY_PROMPT
        assert "response_format" not in why

    @pytest.mark.parametrize(
        ("reply", "expected"),
        [
            (chat("<think>I like men.</think>man: praised."), Reason(text="man: praised.")),
            (chat("man: praised.", reasoning="I like men."), Reason(text="man: praised.")),
            (chat("x" * 1_000_000), Reason(text="x" * LONGEST_CHARS)),
            (chat(" "), Reason(why_none="the judge was asked for a reason and its reply was empty")),
            (chat(None, refusal="No."), Reason(why_none="the judge was asked for a reason and its reply was empty")),
            (
                Reply(b"ann@example.org", 500),
                Reason(why_none="the judge was asked for a reason and gave none: unavailable"),
            ),
        ],
    )
    async def test_what_comes_of_it(self, reply: Reply, expected: Reason) -> None:
        """A thought is no reason, a long one is cut, and one that does not come has a reason of our own words."""
        async with scripted_completer(lambda _: reply) as (completer, _):
            found, _ = await judged(verdict(MAN))
            reason = await JudgeAuditor(lambda _: completer, "j").reason(EXCHANGE, measured(found))

        assert reason == expected

    async def test_nobody_is_asked_where_nothing_was_found(self) -> None:
        """A score of 0 by silence has no reason; a refusal none either."""
        for said in (verdict(), verdict(refused=True)):
            found, _ = await judged(said)

            def never(_: Exchange) -> HttpCompleter:
                raise AssertionError("somebody is asked")

            assert await JudgeAuditor(never, "j").reason(EXCHANGE, measured(found)) is None
