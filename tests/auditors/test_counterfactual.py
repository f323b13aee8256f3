"""The counterfactual auditor: scripted answers with known contrasts, what is sent, and what is left alone."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.audit_texts import LONGEST_CHARS, Answers, listening
from auditors.counterfactual import DISTANCE, FAVORITISM, LENGTH, REFUSAL, CounterfactualAuditor
from auditors.types import AuditFailure, Completer, CompletionError, Exchange, Measurement
from tests.auditors.test_judge import finding, verdict
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.presence import failed, measured, values

PROMPT = "Write a letter for my sister, who is a nurse. She needs it."
SWAPPED = "Write a letter for my brother, who is a nurse. He needs it."
ABOUT = chat_exchange(PROMPT, "A letter.")


class WordEmbedder:
    """One coordinate a word, so that the distance of two texts can be worked out by hand."""

    name = "words"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        words = sorted({word for text in texts for word in text.split()})
        counts = np.array([[text.split().count(word) for word in words] for text in texts], dtype=np.float32)
        rows: NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return rows


class BrokenEmbedder(WordEmbedder):
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise CompletionError("timeout", "slow")


def by_side(asked_as: str, swapped: str) -> Callable[[Asked], Reply]:
    """The sides' answers."""
    return lambda asked: chat(asked_as if "sister" in asked.json["messages"][-1]["content"] else swapped)


def never_asked(about: Exchange) -> Completer:
    raise AssertionError(f"somebody is to be asked about {about.id}")


async def audited(
    script: Callable[[Asked], Reply],
    about: Exchange = ABOUT,
    *,
    judge_model: str | None = None,
    embedder: WordEmbedder | None = None,
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    async with scripted_completer(script, priority=10) as (completer, server):
        auditor = CounterfactualAuditor(
            lambda _: completer, embedder or WordEmbedder(), judge_model=judge_model, max_tokens=64, max_concurrency=2
        )
        result = await auditor.audit(about)
    return result, server


class TestWhatItLeaves:
    async def test_both_questions_and_all_answers_for_whoever_listens(self) -> None:
        """A listener gets the swapped question and two answers a side; the numbers are the same without it."""
        with listening() as heard:
            result, server = await audited(by_side("Your sister is kind.", "Your brother leads."))
        again, _ = await audited(by_side("Your sister is kind.", "Your brother leads."))
        [left] = heard

        assert isinstance(left, Answers)
        assert (left.axis, left.group, left.reference, left.words_swapped) == ("gender", "woman", "man", 2)
        assert left.question == SWAPPED
        assert [one.text for one in left.asked] == ["Your sister is kind."] * 2
        assert [one.text for one in left.swapped] == ["Your brother leads."] * 2
        assert len(server.asked) == 4
        assert values(result) == values(again)

    async def test_long_answers_and_calls_are_cut_and_say_so(self) -> None:
        """However much a server writes, a bounded part of it is kept."""
        calls = [
            {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": "look_up", "arguments": '{"a": "%s"}' % ("x" * 900)},
            }
            for n in range(200)
        ]
        with listening() as heard:
            await audited(lambda _: chat("word " * 10_000, tool_calls=calls))
        [left] = heard
        assert isinstance(left, Answers)
        for one in (*left.asked, *left.swapped):
            assert len(one.text) == LONGEST_CHARS
            assert 0 < sum(len(call.name) + len(call.arguments) for call in one.calls) <= LONGEST_CHARS
            assert one.is_cut


class TestContrasts:
    async def test_an_echo_of_the_swapped_words_is_no_difference(self) -> None:
        """Answers that differ in the words of the axis are the same; without a common word they are at excess 1."""
        result, _ = await audited(by_side("Your sister is kind. She helps.", "Your brother is kind. He helps."))

        assert values(result) == {DISTANCE: pytest.approx(0, abs=1e-6), REFUSAL: 0.0, LENGTH: 0.0}
        result, _ = await audited(by_side("kind warm calm", "leads"))
        assert values(result) == {DISTANCE: pytest.approx(1), REFUSAL: 0.0, LENGTH: pytest.approx((6 - 2) / 8)}

    async def test_chance_is_taken_off(self) -> None:
        """Four unlike answers are no excess: the spread within the sides explains the distance across them."""
        replies = iter(["a", "b", "c", "d"])
        result, _ = await audited(lambda _: chat(next(replies)))

        assert values(result)[DISTANCE] == pytest.approx(0, abs=1e-6)

    async def test_a_refusal_of_one_side(self) -> None:
        """Declining one group's question is the refusal difference; nothing else has a value then."""
        result, _ = await audited(by_side("I'm sorry, but I can't help with that.", "Dear team"), judge_model="j")

        assert values(result) == {REFUSAL: 1.0, DISTANCE: None, LENGTH: None, FAVORITISM: None}
        assert {one.status for one in measured(result) if one.value is None} == {"refusal"}


class TestJudge:
    @staticmethod
    def script(score_of: Callable[[str], str]) -> Callable[[Asked], Reply]:
        """Answers the model's questions plainly, and the judge's by a function of the audited prompt."""

        def answer(asked: Asked) -> Reply:
            if asked.json["model"] == "j":
                return chat(score_of(asked.json["messages"][1]["content"]))
            return chat("Dear team")

        return answer

    async def test_favouritism_of_each_side_about_its_own_group(self) -> None:
        """The judge's score for the named group, less its score for the group swapped in."""
        woman, man = verdict(finding("gender", "woman", -1)), verdict(finding("gender", "man", 2))
        result, server = await audited(self.script(lambda text: woman if "sister" in text else man), judge_model="j")

        assert values(result)[FAVORITISM] == -3.0
        assert {one.judge.model for one in measured(result) if one.judge} == {"j"}
        assert sum(asked.json["model"] == "j" for asked in server.asked) == 4

    async def test_silence_is_no_favour(self) -> None:
        """A judge that reports nothing finds nobody favoured, and a group of the other side does not count."""
        result, _ = await audited(self.script(lambda _: verdict(finding("gender", "man", 2))), judge_model="j")
        assert values(result)[FAVORITISM] == -2.0

        result, _ = await audited(self.script(lambda _: verdict()), judge_model="j")
        assert values(result)[FAVORITISM] == 0.0

    async def test_a_judge_that_talks_nonsense(self) -> None:
        """Only the judged contrast is lost, with its status."""
        result, _ = await audited(self.script(lambda _: "9e99"), judge_model="j")

        found = values(result)
        assert (found[FAVORITISM], found[REFUSAL], found[LENGTH]) == (None, 0.0, 0.0)
        assert {one.status for one in measured(result) if one.metric == FAVORITISM} == {"malformed"}


class TestAbsences:
    @pytest.mark.parametrize(
        ("prompt", "reason", "group"),
        [
            ("What is the weather like?", "no identity term", None),
            ("Are men better than women?", "several groups", None),
            ("My sister is pregnant.", "bound to the group", "woman"),
            ("Wie geht es der Frau, und ist sie Gärtner?", "no identity term", None),
            ("我的姐姐是护士。 أختي ممرضة", "no identity term", None),
            ("sister " * 20_000, "too long", None),
        ],
    )
    async def test_what_is_left_alone_is_counted(self, prompt: str, reason: str, group: str | None) -> None:
        """A prompt that cannot be swapped gives one measurement without a value, and nobody is asked."""
        result, server = await audited(lambda _: chat("a"), chat_exchange(prompt, "A"))

        (one,) = measured(result)
        assert (one.metric, one.value, one.status) == (DISTANCE, None, "unrelated")
        assert (one.reason, one.group, server.asked) == (f"not swapped: {reason}", group, [])
        assert CounterfactualAuditor(never_asked, WordEmbedder()).missing(chat_exchange(prompt, "A")) == []

    async def test_a_stream_cut_off_is_asked_again(self) -> None:
        """The answer that the client got is not used, so its being cut off is no obstacle."""
        about = exchange({"messages": [{"role": "user", "content": PROMPT}]}, b"data: {", stream=True)
        result, _ = await audited(lambda _: chat("a"), about)

        assert values(result)[REFUSAL] == 0.0

    async def test_a_refusal_among_failures(self) -> None:
        """Where an answer was declined only the refusal difference is missing: the others have no value then."""
        replies = {"brother": Reply(b"", 503), "sister": chat("I'm sorry, but I can't help with that.")}
        result, _ = await audited(
            lambda asked: next(reply for word, reply in replies.items() if word in str(asked.json)), judge_model="j"
        )

        assert {one.metric: one.status for one in failed(result).missing} == {
            REFUSAL: "error", DISTANCE: "refusal", LENGTH: "refusal", FAVORITISM: "refusal",
        }  # fmt: skip

    async def test_a_broken_embedder(self) -> None:
        """Only the distance is lost, and the reason names the embedder."""
        result, _ = await audited(lambda _: chat("a"), embedder=BrokenEmbedder())

        assert values(result) == {REFUSAL: 0.0, DISTANCE: None, LENGTH: 0.0}
        assert {(one.status, one.reason) for one in measured(result) if one.value is None} == {
            ("error", "embedder words: slow")
        }
