"""Probes of each asking auditor: the exact bodies sent, and what a live request's own conditions do to the numbers."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.affinity import AffinityAuditor, axis_of
from auditors.counterfactual import CounterfactualAuditor
from auditors.embedding import RepresentativeAuditor
from auditors.measuring import ProbingAuditor
from auditors.text.identity import IDENTITIES, with_identity
from auditors.types import AuditFailure, Completer, Exchange, Measurement
from gateway.features.first_person.auditor import FirstPersonAuditor
from tests.auditors.test_conditions import BESIDE, SHAPING, TOOL
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.presence import failed, measured

ASKED = "Write a letter for my sister."
SWAPPED = "Write a letter for my brother."
SYSTEM = "Be brief."


class PlainEmbedder:
    """A coordinate for each text: equal texts are at distance 0, others at 1."""

    name = "plain"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        different = list(dict.fromkeys(texts))
        found: NDArray[np.float32] = np.eye(len(different), dtype=np.float32)[[different.index(one) for one in texts]]
        return found


def auditor(name: str, completer_for: Callable[[Exchange], Completer]) -> ProbingAuditor:
    """One of the auditors that ask, with answers of at most 64 tokens."""
    match name:
        case "embedding":
            return RepresentativeAuditor(completer_for, PlainEmbedder(), max_tokens=64)
        case "affinity":
            return AffinityAuditor(completer_for, max_tokens=64)
        case "first_person":
            return FirstPersonAuditor(completer_for, PlainEmbedder(), max_tokens=64)
    return CounterfactualAuditor(completer_for, PlainEmbedder(), max_tokens=64)


NAMES = ("embedding", "affinity", "counterfactual")


async def audited(
    name: str, about: Exchange, script: Callable[[Asked], Reply], within_seconds: float = 60.0
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    async with scripted_completer(script, priority=10, timeout=within_seconds) as (completer, server):
        result = await auditor(name, lambda _: completer).audit(about)
    return result, server


def asked_texts(name: str, about: Exchange) -> list[str]:
    """The last message of each probe that the auditor owes."""
    if name == "counterfactual":
        return [ASKED, ASKED, SWAPPED, SWAPPED]
    return [with_identity(one, ASKED) for one in (IDENTITIES if name == "embedding" else axis_of(about))]


def model(asked: Asked) -> Reply:
    is_choice = "<<<DATA" in asked.json["messages"][-1]["content"]
    return chat("choice 1" if is_choice else "Dear team")


def probes(server: ScriptedServer) -> list[dict[str, Any]]:
    """What was asked, without the evaluator's questions."""
    return [asked.json for asked in server.asked if "<<<DATA" not in asked.json["messages"][-1]["content"]]


@pytest.mark.parametrize("name", NAMES)
class TestBodies:
    async def test_a_chat(self, name: str) -> None:
        """Each probe is the live request to the last field, less what says who asks and how, and nothing more."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED, "name": "alice"}]
        request = {"messages": messages, **SHAPING, **BESIDE}
        about = exchange(request, {"choices": [{"message": {"content": "Dear"}}]})
        _, server = await audited(name, about, model)

        expected = SHAPING | {"model": "served", "temperature": 0.0, "top_p": 0.9, "max_tokens": 9, "priority": 10}
        bodies = probes(server)
        assert [{key: value for key, value in body.items() if key != "messages"} for body in bodies] == [
            expected for _ in bodies
        ]
        assert sorted(body["messages"][1]["content"] for body in bodies) == sorted(asked_texts(name, about))
        assert {(body["messages"][0]["role"], body["messages"][0]["content"]) for body in bodies} == {
            ("system", SYSTEM)
        }
        assert {tuple(message) for body in bodies for message in body["messages"]} == {("role", "content")}
        for asked in server.asked:
            assert asked.headers["x-biasgate-audit"] == "off"
            assert not {"authorization", "cookie", "x-session-id", "x-request-id"} & set(asked.headers)

    async def test_an_evaluator_is_asked_in_free_text(self, name: str) -> None:
        """No format, stop or tool of the live request reaches the question about the answers."""
        about = chat_exchange(ASKED, "Dear", **SHAPING)
        _, server = await audited(name, about, model)

        choices = [asked.json for asked in server.asked if asked.json not in probes(server)]
        assert len(choices) == (len(axis_of(about)) if name == "affinity" else 0)
        for body in choices:
            assert not any(body.pop("chat_template_kwargs").values())  # an evaluator is not to think
            assert set(body) == {"model", "messages", "max_tokens", "temperature", "priority"}
            assert body["temperature"] == 0.2

    async def test_a_field_that_cannot_be_carried(self, name: str) -> None:
        """The exchange is left alone, counted by its reason; nobody is asked and nothing is missing."""
        about = chat_exchange(ASKED, "Dear", functions=[{"name": "f"}])
        result, server = await audited(name, about, model)

        assert isinstance(result, AuditFailure)
        assert (result.kind, result.reason, list(result.missing)) == ("not_auditable", "field_not_carried", [])
        assert "functions" in result.message
        assert server.asked == []

    async def test_a_call_in_place_of_words(self, name: str) -> None:
        """Where every probe calls a tool there are no words to compare: no value, none missing, nothing run."""
        call = {"id": "c", "type": "function", "function": {"name": "send", "arguments": "{}"}}
        about = chat_exchange(ASKED, "Dear", tools=[TOOL])
        result, server = await audited(name, about, lambda _: chat(None, tool_calls=[call]))

        in_words = [one for one in measured(result) if "tool" not in one.metric and "refusal" not in one.metric]
        assert {(one.value, one.status) for one in in_words} == {(None, "unrelated")}
        assert {asked.path for asked in server.asked} == {"/v1/chat/completions"}


def never_asked(about: Exchange) -> Completer:
    raise AssertionError(f"a server is to be asked about {about.id}")


def streams(measurements: Sequence[Measurement]) -> set[tuple[str, str | None, str | None, str | None]]:
    return {(each.metric, each.axis, each.group, each.reference) for each in measurements}


ANSWER = {"choices": [{"message": {"content": "A letter"}}]}
OUTPUT = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "A letter"}]}]}
IMAGE = [{"type": "image_url"}, {"type": "text", "text": ASKED}]


@pytest.mark.parametrize("name", [*NAMES, "first_person"])
class TestAbsences:
    @pytest.mark.parametrize(
        ("about", "why"),
        [
            (exchange(b"?", b"{}"), "not JSON"),
            (exchange({"prompt": ASKED}, {"choices": [{"text": "b"}]}, endpoint="/v1/completions"), "chat template"),
            (exchange({"messages": [{"role": "user", "content": IMAGE}]}, ANSWER), "image"),
            (exchange({"messages": [{"role": "tool", "content": "my sister"}]}, ANSWER), "without an id"),
            (exchange({"input": ASKED, "previous_response_id": "r0"}, OUTPUT, endpoint="/v1/responses"), "elsewhere"),
            (exchange({"messages": []}, ANSWER), "no user message"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    async def test_what_cannot_be_asked_again(self, name: str, about: Exchange, why: str) -> None:
        """Such an exchange is not auditable, with the reason; no server is asked, and nothing is missing."""
        result, server = await audited(name, about, model)

        assert (failed(result).kind, why in failed(result).message, server.asked) == ("not_auditable", True, [])
        assert [*failed(result).missing, *auditor(name, never_asked).missing(about)] == []

    async def test_a_question_that_is_always_rejected(self, name: str) -> None:
        """It cannot be asked: the audit is rejected with the server's words, and nothing is missing."""
        rejection = Reply(b'{"error": {"message": "not today"}}', 400)
        result, _ = await audited(name, chat_exchange(ASKED, "Dear"), lambda _: rejection)

        assert (failed(result).kind, list(failed(result).missing)) == ("rejected", [])
        assert "not today" in failed(result).message

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [(Reply(b"", 500), "unavailable"), (Reply(b"nonsense"), "malformed"), (Reply(b"", delay=1), "timeout")],
        ids=["unavailable", "malformed", "timeout"],
    )
    async def test_a_server_that_answers_nothing(self, name: str, reply: Reply, kind: str) -> None:
        """The audit fails as its questions did; each number of a sound audit is missing, in the same stream."""
        about = chat_exchange(ASKED, "Dear")
        result, _ = await audited(name, about, lambda _: reply, within_seconds=0.3 if reply.delay else 60.0)
        sound, _ = await audited(name, about, model)
        owed = auditor(name, never_asked).missing(about)

        assert failed(result).kind == kind
        assert streams(failed(result).missing) == streams(owed) == streams(measured(sound))
        assert {(each.status, each.value) for each in (*failed(result).missing, *owed)} == {("error", None)}


def formatted(seed: int) -> Callable[[Asked], Reply]:
    """A model that knows no identity: its words hang on format and stop alone, and on chance above temperature 0."""
    rng = random.Random(seed)

    def script(asked: Asked) -> Reply:
        is_json = asked.json.get("response_format") == {"type": "json_object"}
        word = "yes" if asked.json.get("temperature") == 0 else rng.choice(["yes", "no", "perhaps"])
        return chat(msgspec.json.encode({"answer": word}).decode() if is_json else f"I would say {word}.")

    return script


class TestPlanted:
    @pytest.mark.parametrize("name", ["embedding", "counterfactual"])
    async def test_format_is_no_identity(self, name: str) -> None:
        """Temperature 0 and JSON, a model without bias: every distance and every excess is exactly 0."""
        about = chat_exchange(ASKED, '{"answer":"yes"}', temperature=0, response_format={"type": "json_object"})
        result, _ = await audited(name, about, formatted(1))

        assert {one.value for one in measured(result)} == {0.0}

    async def test_a_fixed_seed_leaves_the_redraws_apart(self) -> None:
        """Probes of a seeded request are drawn afresh: the server sees no seed, and answers differ."""
        about = chat_exchange(ASKED, "Dear", temperature=1, seed=7)
        rng, said = random.Random(0), set[str]()

        def seeded(asked: Asked) -> Reply:
            word = f"{random.Random(asked.json['seed']).random() if 'seed' in asked.json else rng.random()}"
            said.add(word)
            return chat(word)

        await audited("counterfactual", about, seeded)
        assert len(said) == 4


class TestDefault:
    @staticmethod
    def writer(length: int) -> Callable[[Asked], Reply]:
        """Repeats one word as often as it would like, or as it may."""

        def script(asked: Asked) -> Reply:
            n = min(length, asked.json["max_tokens"])
            choice = {"message": {"content": "word " * n}, "finish_reason": "stop" if n == length else "length"}
            return Reply(msgspec.json.encode({"choices": [choice], "usage": {"completion_tokens": n}}))

        return script

    @pytest.mark.parametrize("usage", [{"completion_tokens": 200}, None])
    async def test_a_longer_default_is_drawn_afresh(self, usage: dict[str, int] | None) -> None:
        """A live answer longer than a probe may be is asked for again within the probe's limit: distances are 0."""
        said = {"choices": [{"message": {"content": "word " * 200}}]} | ({"usage": usage} if usage else {})
        about = exchange({"messages": [{"role": "user", "content": ASKED}], "max_tokens": 500}, said)
        result, server = await audited("embedding", about, self.writer(200))

        assert {one.value for one in measured(result)} == {0.0}
        texts = [asked.json["messages"][-1]["content"] for asked in server.asked]
        assert (len(texts), texts.count(ASKED)) == (len(IDENTITIES) + 1, 1)
        assert {asked.json["max_tokens"] for asked in server.asked} == {64}

    async def test_a_short_default_is_not(self) -> None:
        """What fits is compared as it was."""
        said = {"choices": [{"message": {"content": "word " * 20}}], "usage": {"completion_tokens": 20}}
        about = exchange({"messages": [{"role": "user", "content": ASKED}]}, said)
        result, server = await audited("embedding", about, self.writer(20))

        assert {one.value for one in measured(result) if one.value is not None} == {0.0}
        assert len(server.asked) == len(IDENTITIES)

    @pytest.mark.parametrize(
        ("reply", "status"),
        [
            (chat(None, refusal="I cannot"), "refusal"),
            (chat(None, tool_calls=[{"function": {"name": "send", "arguments": "{}"}}]), "unrelated"),
            (chat(""), "error"),
        ],
    )
    async def test_a_fresh_default_that_is_none(self, reply: Reply, status: str) -> None:
        """Declined or a call: nothing to be at a distance from; empty: every distance is missing."""
        about = chat_exchange(ASKED, "word " * 200)
        script = self.writer(20)
        result, _ = await audited(
            "embedding", about, lambda asked: reply if asked.json["messages"][-1]["content"] == ASKED else script(asked)
        )
        assert {(one.value, one.status) for one in measured(result)} == {(None, status)}


@pytest.mark.parametrize("name", NAMES)
class TestShortContexts:
    """The live answer had thoughts, so that each probe has room for 4,096 tokens of them beside 64 of its answer."""

    @staticmethod
    def server_with(tokens: int) -> Callable[[Asked], Reply]:
        """Refuses what its context has no room for in the words of vLLM, another number for each prompt."""

        def script(asked: Asked) -> Reply:
            left = tokens - len(asked.json["messages"][-1]["content"])
            if (wanted := asked.json["max_tokens"]) <= left:
                return model(asked)
            words = f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context"
            return Reply(msgspec.json.encode({"error": {"message": words}}), 400)

        return script

    ABOUT = exchange(
        {"messages": [{"role": "user", "content": ASKED}]},
        {"choices": [{"message": {"content": "Dear", "reasoning": "A letter, then."}}]},
    )

    async def test_all_probes_have_the_same_smaller_room(self, name: str) -> None:
        """Some prompts would fit with 1,040 tokens, and one does not: all are asked with 520."""
        longest_prompt = max(map(len, asked_texts(name, self.ABOUT)))
        result, server = await audited(name, self.ABOUT, self.server_with(1040 + longest_prompt - 1))

        assert all(one.status == "ok" for one in measured(result))
        limits = [body["max_tokens"] for body in probes(server)]
        assert sorted(set(limits), reverse=True) == [4160, 2080, 1040, 520]
        assert limits.count(520) >= len(asked_texts(name, self.ABOUT))

    async def test_the_room_of_an_answer_stays(self, name: str) -> None:
        """A context that has none of its own for the answer can be asked nothing, and nobody halves on."""
        result, server = await audited(name, self.ABOUT, self.server_with(0))

        assert isinstance(result, AuditFailure)
        assert result.kind == "rejected"
        assert not result.missing
        assert min(body["max_tokens"] for body in probes(server)) == 64
