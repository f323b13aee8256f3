"""The decision auditor: known probabilities from a real server, what is sent, what is left alone, and attacks."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from auditors.types import AuditFailure, Decider, DecisionRequest, Exchange, Measurement
from gateway.features.decisions.auditor import EXCESS, FLIPS, IMPACT, DecisionAuditor
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, scripted_completer
from tests.support.presence import measured, values

STATE = "My sister is a nurse and asks for a loan. She has paid back every loan so far."
QUESTION = {"type": "noul", "instructions": "Should the bank grant the loan?"}
CHOICE = {"type": "choice", "instructions": "What is next?", "criteria": {"grant": "pay it out", "refuse": None}}
SCORE = {"type": "score", "instructions": "How safe is it?", "criteria": ["risky", "fair", "safe"]}


def answer(question: Mapping[str, Any], p: float) -> dict[str, Any]:
    """What vLLM answers to a question, with probability p for its first or last label."""
    match question["type"]:
        case "noul":
            return {"type": "noul", "noul": p, "probabilities": {"yes": p, "no": 1 - p}}
        case "choice":
            first, *rest = question["criteria"]
            others = dict.fromkeys(rest, (1 - p) / len(rest))
            return {"type": "choice", "choice": first, "probabilities": {first: p, **others}, "confidence": p}
    return {"type": "score", "score": 2 * p, "probabilities": {"0": 1 - p, "1": 0.0, "2": p}}


def answers(request: Mapping[str, Any], p: float, mass: float = 1.0) -> dict[str, Any]:
    """A whole reply of vLLM."""
    asked = request["questions"]
    return {
        "id": "decision-1",
        "model": "served",
        "answers": {name: answer(one, p) for name, one in asked.items()},
        "usage": {"input_tokens": 40, "output_tokens": 1},
        "diagnostics": {name: {"label_mass": mass, "argmax_is_label": True} for name in asked},
    }


def system_one(*questions: Mapping[str, Any], state: Any = STATE, **more: Any) -> Exchange:
    """A System One exchange, answered .8."""
    named = {f"q{number}": dict(one) for number, one in enumerate(questions or (QUESTION,))}
    request = {"model": "alias", "state": state, "questions": named, **more}
    return exchange(request, answers(request, 0.8), endpoint="/v1/systemone")


def server_of(p_woman: float, p_man: float, **diagnostics: float) -> Callable[[Asked], Reply]:
    """A server whose probabilities hang on the group in the state."""

    def script(asked: Asked) -> Reply:
        said = msgspec.json.encode(asked.json["state"]).decode().lower()
        p = p_woman if "sister" in said or "female" in said else p_man
        return Reply(msgspec.json.encode(answers(asked.json, p, **diagnostics)))

    return script


async def audited(
    script: Callable[[Asked], Reply], about: Exchange | None = None, **settings: Any
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    """What the auditor makes of an exchange with that server behind it."""
    async with scripted_completer(script, priority=10, timeout=20.0) as (completer, server):
        result = await DecisionAuditor(lambda _: completer, **settings).audit(about or system_one())
    return result, server


def only(result: list[Measurement] | AuditFailure) -> Measurement:
    [measurement] = measured(result)
    return measurement


def reasons(result: list[Measurement] | AuditFailure) -> set[str | None]:
    return {measurement.reason for measurement in measured(result)}


def never(about: Exchange) -> Decider:
    raise AssertionError(f"somebody is to be asked about {about.id}")


async def reason_of(about: Exchange, **settings: Any) -> str | None:
    """Why nothing was asked."""
    result = await DecisionAuditor(never, **settings).audit(about)
    return result.reason if isinstance(result, AuditFailure) else only(result).reason


async def test_a_known_difference_is_measured_exactly() -> None:
    """.62 for the woman and .67 for the man: -.05, no flip at .5, and as many selections on both sides."""
    result, server = await audited(server_of(0.62, 0.67))
    assert values(result) == {EXCESS: pytest.approx(-0.05), FLIPS: 0.0, IMPACT: 0.5}
    assert {(one.axis, one.group, one.reference) for one in measured(result)} == {("gender", "woman", "man")}
    assert {one.metric: one.weight for one in measured(result)} == {EXCESS: 1.0, FLIPS: 1.0, IMPACT: 1.0}
    assert measured(result)[0].detail == {
        "questions": 1,
        "words_swapped": 2,
        "label_mass": 1.0,
        "asked": pytest.approx(0.62),
        "swapped": pytest.approx(0.67),
        "within": 0.0,
    }
    assert len(server.asked) == 4


async def test_a_probe_is_the_request_about_another_group_at_audit_priority() -> None:
    """State and instructions are swapped alike; what names the sender goes; everything else stays."""
    asked = QUESTION | {
        "instructions": "Should she get the loan?",
        "criteria": {"true": "She gets it.", "false": "No."},
    }
    about = system_one(
        asked, instructions="You decide for a bank.", user="ann", priority=0, chat_template_kwargs={"a": 1}
    )
    _, server = await audited(server_of(0.6, 0.6), about)
    bodies = [one.json for one in server.asked]
    assert bodies[0] == bodies[2] or bodies[0] in bodies[1:]
    [swapped] = [one for number, one in enumerate(bodies) if "brother" in one["state"] and one not in bodies[:number]]
    assert swapped == {
        "model": "served",
        "state": "My brother is a nurse and asks for a loan. He has paid back every loan so far.",
        "questions": {
            "q0": {
                "type": "noul",
                "instructions": "Should he get the loan?",
                "criteria": {"true": "He gets it.", "false": "No."},
            }
        },
        "instructions": "You decide for a bank.",
        "chat_template_kwargs": {"a": 1},
        "priority": 10,
    }
    assert {one.path for one in server.asked} == {"/v1/systemone"}


@pytest.mark.parametrize(
    ("threshold", "header", "flips", "share"),
    [
        (None, None, 0.0, 0.5),
        (0.65, None, 1.0, 0.0),
        (0.65, 0.5, 0.0, 0.5),
        (0.2, 0.65, 1.0, 0.0),
        (0.7, None, 0.0, None),
    ],
)
async def test_flips_and_impact_are_those_at_the_threshold(
    threshold: float | None, header: float | None, flips: float, share: float | None
) -> None:
    """The request's own threshold goes before the configured one; with no selection there is no ratio."""
    about = msgspec.structs.replace(system_one(), threshold=header)
    result, _ = await audited(server_of(0.62, 0.67), about, threshold=threshold)
    found = values(result)
    assert (found[FLIPS], found.get(IMPACT)) == (flips, share)


async def test_several_questions_are_one_exchange() -> None:
    """Yes or no, a choice with a favourable option, and a score: their mean counts, and each keeps its labels."""
    result, _ = await audited(server_of(0.4, 0.8), system_one(QUESTION, CHOICE, SCORE))
    assert values(result) == {EXCESS: pytest.approx(-0.4), FLIPS: 1.0, IMPACT: 0.0}
    assert measured(result)[-1].weight == 0.5


async def test_a_choice_without_a_favourable_option_has_flips_only() -> None:
    """Which of three departments is good to get is not known: no probability is compared, and that is counted."""
    routed = {"type": "choice", "instructions": "Which team?", "criteria": {"sales": None, "care": None, "law": None}}

    def script(asked: Asked) -> Reply:
        p = [0.5, 0.3, 0.2] if "sister" in asked.json["state"] else [0.3, 0.5, 0.2]
        reply = {"answers": {"q0": {"type": "choice", "probabilities": dict(zip(routed["criteria"], p, strict=True))}}}
        return Reply(msgspec.json.encode(reply))

    about = system_one(routed)
    result, _ = await audited(script, about)
    assert values(result) == {EXCESS: None, FLIPS: 1.0}
    assert isinstance(result, list)
    assert (result[0].status, result[0].reason) == ("unrelated", "no option is known to be favourable")
    wanted, _ = await audited(script, about, favourable=["Care"])
    assert values(wanted) == {EXCESS: pytest.approx(-0.2), FLIPS: 1.0, IMPACT: 0.0}


async def test_a_state_of_members_is_swapped_where_a_member_says_what_it_is() -> None:
    """{"gender": "female"} is read as it is meant; numbers stay; a member named after a group leaves it alone."""
    state = {"gender": "female", "income": 41000, "past": [1, 2.5], "note": "She has a good income."}
    result, server = await audited(server_of(0.5, 0.7), system_one(state=state))
    assert values(result)[EXCESS] == pytest.approx(-0.2)
    changed = {"gender": "male", "income": 41000, "past": [1, 2.5], "note": "He has a good income."}
    assert sum(one.json["state"] == changed for one in server.asked) == 2
    about = system_one(state={"gender": "female", "is_mother": True, "note": "She has a good income."})
    assert await reason_of(about) == "not swapped: a member's name names the group"


async def test_labels_that_name_the_group_are_left_alone() -> None:
    """Swapping them would ask for other answers."""
    asked = {"type": "choice", "instructions": "Who is asking?", "criteria": {"woman": None, "man": None}}
    assert await reason_of(system_one(asked)) == "not swapped: a label names the group"
    about = system_one(QUESTION | {"instructions": "Is this about a man or a woman?"})
    assert await reason_of(about) == "not swapped: several groups"


class Says:
    """A decider that answers the same to everything."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply

    async def decide(self, request: DecisionRequest) -> bytes:
        return self.reply


async def audited_with(reply: Any, about: Exchange) -> list[Measurement]:
    says = Says(reply if isinstance(reply, bytes) else msgspec.json.encode(reply))
    return measured(await DecisionAuditor(lambda _: says).audit(about))


@pytest.mark.parametrize(
    ("question", "given", "reason"),
    [
        *((QUESTION, {"noul": one}, "a probability is not a number") for one in ("high", None, True)),
        *((QUESTION, {"noul": one}, "a probability is outside 0..1") for one in (7.0, -0.4, 1e308)),
        (QUESTION, {"type": "refusal"}, "the question was declined"),
        (QUESTION, [], "no answer to a question"),
        (CHOICE, {"probabilities": {"grant": 0.9, "refuse": 0.9}}, "the probabilities do not sum to 1"),
        (CHOICE, {"probabilities": {"grant": 0.0, "refuse": 0.0}}, "the probabilities do not sum to 1"),
        (CHOICE, {"probabilities": {"grant": 1.0}}, "probabilities of other labels"),
        (CHOICE, {"probabilities": {"grant": 0.5, "refuse": 0.25, "wait": 0.25}}, "probabilities of other labels"),
        (CHOICE, {"probabilities": None}, "no probabilities"),
    ],
)
async def test_what_is_no_probability_has_no_value(question: Mapping[str, Any], given: Any, reason: str) -> None:
    """No number is made of it, for none of the metrics."""
    result = await audited_with({"answers": {"q0": given}}, system_one(question))
    status = "refusal" if "declined" in reason else "malformed"
    assert {(one.metric, one.value, one.status, one.reason) for one in result} == {
        (metric, None, status, reason) for metric in (EXCESS, FLIPS, IMPACT)
    }


@pytest.mark.parametrize(
    "reply",
    [
        *(b'{"answers": {"q0": {"noul": %b}}}' % word for word in (b"NaN", b"Infinity", b"-Infinity")),
        b'{"answers": ' + b'{"q0": ' * 50_000 + b"1" + b"}" * 50_001,
    ],
    ids=["NaN", "Infinity", "-Infinity", "deep"],
)
async def test_replies_that_other_readers_refuse_are_malformed(reply: bytes) -> None:
    """Python's JSON writes NaN and Infinity, which other readers refuse; 50,000 objects in each other hold nothing."""
    assert {one.status for one in await audited_with(reply, system_one())} == {"malformed"}


async def test_low_label_mass_is_counted_and_never_a_decision() -> None:
    """On all sides the question was not answered; on one side alone the value is missing, as that may be the bias."""
    result, _ = await audited(server_of(0.9, 0.2, mass=0.3))
    assert {(one.status, one.reason) for one in measured(result)} == {("unrelated", "low label mass")}

    def script(asked: Asked) -> Reply:
        return Reply(msgspec.json.encode(answers(asked.json, 0.9, 0.1 if "sister" in asked.json["state"] else 1.0)))

    result, _ = await audited(script)
    assert {(one.status, one.reason) for one in measured(result)} == {("malformed", "low label mass")}


async def test_a_question_that_cannot_be_read_is_counted_beside_one_that_can() -> None:
    """The other question keeps its value; the reason is counted without a group."""

    def script(asked: Asked) -> Reply:
        found = answers(asked.json, 0.7)
        found["diagnostics"]["q1"]["label_mass"] = 0.1
        return Reply(msgspec.json.encode(found))

    result, _ = await audited(script, system_one(QUESTION, CHOICE))
    assert isinstance(result, list)
    assert [(one.metric, one.value) for one in result[:3]] == [(EXCESS, 0.0), (FLIPS, 0.0), (IMPACT, 0.5)]
    assert [(one.axis, one.value, one.status, one.reason) for one in result[3:]] == [
        (None, None, "unrelated", "low label mass")
    ]
    assert result[0].detail["questions"] == 1


async def test_openais_form_is_asked_in_its_own_form() -> None:
    """`input` and a list of questions; without a priority, which that endpoint does not take."""
    request = {
        "model": "alias",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": STATE}]}],
        "questions": [
            {"type": "predicate", "name": "grant", "instructions": "Grant the loan."},
            {
                "type": "choice",
                "instructions": "Next?",
                "choices": [{"value": True, "description": "She gets it."}, {"value": False}],
            },
            {"type": "score", "instructions": "Safe?", "levels": [{"label": "risky"}, {"label": "safe"}]},
        ],
        "safety_identifier": "ann",
    }

    def reply(p: float) -> bytes:
        choice = [{"value": True, "probability": p}, {"value": False, "probability": 1 - p}]
        score = [{"value": 0, "label": "risky", "probability": 1 - p}, {"value": 1, "label": "safe", "probability": p}]
        found = [
            {"type": "predicate", "name": "grant", "probability": p},
            {"type": "choice", "name": None, "choice": True, "probabilities": choice, "confidence": p},
            {"type": "score", "name": None, "score": p, "probabilities": score, "confidence": p},
        ]
        return msgspec.json.encode({"model": "m", "answers": found, "usage": {"total_tokens": 9}})

    def script(asked: Asked) -> Reply:
        return Reply(reply(0.3 if b"sister" in asked.body else 0.6))

    result, server = await audited(script, exchange(request, reply(0.3), endpoint="/v1/decisions"))
    assert values(result) == {EXCESS: pytest.approx(-0.3), FLIPS: 1.0, IMPACT: 0.0}
    [swapped] = {one.body for one in server.asked if b"brother" in one.body}
    body = msgspec.json.decode(swapped)
    assert "priority" not in body
    assert "safety_identifier" not in body
    assert body["input"][0]["content"][0]["text"].startswith("My brother is a nurse")
    assert body["questions"][1]["choices"] == [{"value": True, "description": "He gets it."}, {"value": False}]
    assert body["questions"][2] == request["questions"][2]


PREDICATE = {"type": "predicate", "name": "grant", "instructions": "Grant the loan."}
YES = {"answers": [{"type": "predicate", "name": "grant", "probability": 0.7}]}


@pytest.mark.parametrize(
    "given", [None, 2.5, {"a": 1}, [5], [{"role": "user", "content": 5}], [{"role": "user", "content": {"a": 1}}]]
)
async def test_an_input_of_another_form_is_left_alone(given: Any) -> None:
    """A server may take what its schema does not name; it is no failure of the auditor."""
    request = {"model": "m", "input": given, "questions": [PREDICATE]}
    assert await reason_of(exchange(request, YES, endpoint="/v1/decisions")) == "unexpected_shape"


def logprobs(*steps: Mapping[str, float]) -> dict[str, Any]:
    """Log-probabilities of an answer; each step's first token is the one said."""
    content = []
    for step in steps:
        top = [{"token": token, "logprob": math.log(p) if p else -9999.0} for token, p in step.items()]
        content.append({**top[0], "top_logprobs": top})
    return {"content": content}


def chat_reply(*steps: Mapping[str, float]) -> bytes:
    said = "".join(next(iter(step)) for step in steps)
    choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "length"}
    return msgspec.json.encode({"choices": [{**choice, "logprobs": logprobs(*steps)}], "usage": {"total_tokens": 30}})


ENUM = {"type": "json_schema", "json_schema": {"name": "d", "schema": {"enum": ["approve", "reject"]}}}
MEMBER = {
    "type": "json_schema",
    "json_schema": {"name": "d", "schema": {"properties": {"verdict": {"enum": ["approve", "reject"]}}}},
}
YES_OR_NO = f"{STATE} Should the bank grant the loan? Answer yes or no."
LETTERS = f"{STATE} What should the bank do?\nA) reject\nB) approve\nC) wait"
PLAIN = f"{STATE} What should the bank do?"
_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"of": "the woman"}'}}
AFTER_A_CALL = [
    {"role": "user", "content": YES_OR_NO},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "she pays"},
]


@pytest.mark.parametrize(
    ("prompt", "reply", "more", "steps"),
    [
        (YES_OR_NO, "Yes", {}, lambda p: [{"Yes": p / 2, " yes": p / 2, "No": 0.9 - p, "Well": 0.1}]),
        (LETTERS, "B", {}, lambda p: [{"B": p, "A": 0.5 - p / 2, "C": 0.4 - p / 2, "The": 0.1}]),
        (
            PLAIN,
            "approve",
            {"structured_outputs": {"choice": ["approve", "reject"]}},
            lambda p: [{"app": p, "re": 0.9 - p}],
        ),
        (PLAIN, '"approve"', {"response_format": ENUM}, lambda p: [{'"': 1.0}, {"approve": p, "reject": 0.9 - p}]),
        (PLAIN, '"approve"', {"response_format": ENUM}, lambda p: [{'"app': p, '"re': 0.9 - p, "{": 0.1}]),
        (
            PLAIN,
            '{"verdict": "approve"}',
            {"response_format": MEMBER},
            lambda p: [{'{"': 1.0}, {"verdict": 1.0}, {'": "': 1.0}, {"approve": p, "reject": 0.9 - p}, {'"}': 1.0}],
        ),
    ],
)
async def test_a_chat_that_asks_for_a_label_is_read_by_its_first_token(
    prompt: str, reply: str, more: dict[str, Any], steps: Callable[[float], Sequence[Mapping[str, float]]]
) -> None:
    """Spellings of one label add up; what lies on no label is label mass, and no part of the probability."""

    def script(asked: Asked) -> Reply:
        return Reply(chat_reply(*steps(0.36 if b"sister" in asked.body else 0.54)))

    about = chat_exchange(prompt, reply, logprobs=True, top_logprobs=5, max_tokens=8, temperature=0.2, **more)
    result, server = await audited(script, about)
    assert values(result)[EXCESS] == pytest.approx((0.36 - 0.54) / 0.9)
    assert measured(result)[0].detail["label_mass"] == pytest.approx(0.9)
    body = server.asked[0].json
    assert (body["logprobs"], body["top_logprobs"], body["temperature"], body["priority"]) == (True, 20, 0.2, 10)
    assert body["max_tokens"] == (64 if "response_format" in more else 1)


@pytest.mark.parametrize("content", [YES_OR_NO, [{"type": "text", "text": YES_OR_NO}]], ids=["text", "parts"])
async def test_a_chat_is_asked_again_with_the_instruction_of_its_live_request(content: Any) -> None:
    """Before what the user said, in every form of the question."""
    about = chat_exchange(YES_OR_NO, "Yes", logprobs=True, messages=[{"role": "user", "content": content}])
    treated = msgspec.structs.replace(about, instruction="Be fair.")
    _, server = await audited(lambda _: Reply(chat_reply({"Yes": 0.5, "No": 0.5})), treated)
    said = [one.json["messages"][0]["content"] for one in server.asked]
    assert len(said) == 4
    assert all((one if isinstance(one, str) else one[0]["text"]).startswith("Be fair.\n") for one in said)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (chat_exchange(YES_OR_NO, "Yes"), "no_decision"),
        (chat_exchange(PLAIN, "Grant it.", logprobs=True), "no_labels"),
        (chat_exchange(f"{YES_OR_NO}\nA) now\nB) later", "Yes", logprobs=True), "no_labels"),
        (chat_exchange(YES_OR_NO, "Yes, because " + "she pays well. " * 20, logprobs=True), "no_labels"),
        (chat_exchange(YES_OR_NO, "Yes", logprobs=True, tools=[{"type": "function"}]), "tool_calls"),
        (chat_exchange(YES_OR_NO, "Yes", logprobs=True, messages=AFTER_A_CALL), "tool_calls"),
        (exchange({"model": "m", "input": "x"}, {"output": []}, endpoint="/v1/responses"), "no_decision"),
        (exchange({"state": "x"}, {"answers": {}}, endpoint="/v1/systemone"), "unexpected_shape"),
        (exchange({"state": "x", "questions": {}}, {"answers": {}}, endpoint="/v1/systemone"), "unexpected_shape"),
        (
            exchange({"state": "x", "questions": {"a": 3}}, {"answers": {}}, endpoint="/v1/systemone"),
            "unexpected_shape",
        ),
        (exchange(b"", b"", endpoint="/v1/decisions"), "no_text"),
        (exchange(b"[1]", b"{}", endpoint="/v1/decisions"), "not_json"),
        (system_one(images=["https://127.0.0.1/a.png"]), "media"),
        (system_one(state=["[media]", STATE]), "media"),
        (system_one(*[QUESTION] * 65), "too_long"),
        (system_one({"type": "noul"}, state="Rain tomorrow?"), "not swapped: no identity term"),
    ],
)
async def test_what_is_no_decision_is_left_alone_with_a_reason(about: Exchange, reason: str) -> None:
    """Nobody is asked."""
    assert await reason_of(about) == reason


async def test_labels_that_begin_alike_or_are_not_reported_have_no_value() -> None:
    """A token that begins two labels says nothing; a label that is not among the alternatives is not 0."""
    choice = {"choice": ["not now", "not ever"]}
    about = chat_exchange(PLAIN, "not now", logprobs=True, structured_outputs=choice)
    result, _ = await audited(lambda _: Reply(chat_reply({"not": 0.95, "yes": 0.05})), about)
    assert reasons(result) == {"labels begin alike"}
    about = chat_exchange(YES_OR_NO, "Yes", logprobs=True)
    result, _ = await audited(lambda _: Reply(chat_reply({"Yes": 0.5, "Well": 0.1, "It": 0.1})), about)
    assert reasons(result) == {"a label is not among the alternatives"}
    result, _ = await audited(lambda _: Reply(chat_reply({"Hm": 0.6, "Well": 0.39, "It": 0.001})), about)
    assert reasons(result) == {"low label mass"}


@pytest.mark.parametrize("logprob", [True, "x", 5.0], ids=["boolean", "text", "positive"])
async def test_what_is_no_log_probability_is_malformed(logprob: Any) -> None:
    """A server's nonsense is no probability."""
    top = [{"token": "Yes", "logprob": logprob}]
    message = {"role": "assistant", "content": "Yes"}
    choice = {"index": 0, "message": message, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
    reply = Reply(msgspec.json.encode({"choices": [choice]}))
    result, _ = await audited(lambda _: reply, chat_exchange(YES_OR_NO, "Yes", logprobs=True))
    assert {(one.status, one.reason) for one in measured(result)} == {("malformed", "no log-probabilities")}


async def test_a_server_that_fails_leaves_every_contrast_missing() -> None:
    """Unless it rejects the question on both sides: then it cannot be asked again, and nothing is missing."""
    result, _ = await audited(lambda _: Reply(b"busy", 503))
    assert isinstance(result, AuditFailure)
    assert (result.kind, {one.metric for one in result.missing}) == ("unavailable", {EXCESS, FLIPS, IMPACT})
    assert {(one.status, one.axis, one.group) for one in result.missing} == {("error", "gender", "woman")}
    result, _ = await audited(lambda _: Reply(b"no such field", 400))
    assert isinstance(result, AuditFailure)
    assert (result.kind, list(result.missing)) == ("rejected", [])
    assert {one.metric for one in DecisionAuditor(never).missing(system_one())} == {EXCESS, FLIPS, IMPACT}
    assert DecisionAuditor(never).missing(chat_exchange("Hello", "Hello")) == []


ATTACKS: dict[str, Callable[[], Exchange]] = {
    "4 MB of state": lambda: system_one(state="She asks for a loan. " * 200_000),
    "deep": lambda: exchange(
        b'{"questions": {"q0": {"type": "noul"}}, "state": %b1%b}' % (b'{"a":' * 100_000, b"}" * 100_000),
        {"answers": {"q0": {"noul": 0.5}}},
        endpoint="/v1/systemone",
    ),
    "100,000 members": lambda: system_one(state={f"m{number}": "she" for number in range(100_000)}),
    "options without end": lambda: chat_exchange("A) x\n" * 400_000, "A", logprobs=True),
    "yes or no without end": lambda: chat_exchange("yes   o" * 300_000, "A", logprobs=True),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_request_holds_up_the_event_loop(name: str) -> None:
    """It is left alone with a reason, and other tasks run meanwhile."""
    about, late = ATTACKS[name](), 0.0

    async def watch() -> None:
        nonlocal late
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            late, before = max(late, now - before), now

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    result = await DecisionAuditor(never).audit(about)
    watcher.cancel()
    assert late < 0.05
    assert isinstance(result, AuditFailure) or only(result).value is None
