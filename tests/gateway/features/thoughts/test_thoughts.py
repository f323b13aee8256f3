"""Thoughts are audited in streams of their own, from wherever a reply holds them."""

from typing import Any

import pytest

from auditors.clients.completion import HttpCompleter
from auditors.judge import METRIC, JudgeAuditor
from auditors.refusal import RATE, RefusalAuditor
from auditors.registry import AUDITORS
from auditors.streams.scales import SCALES
from auditors.types import AuditFailure, Measurement, Servers
from gateway.config.schema import AuditorConfig
from gateway.features.thoughts.auditors import JudgeThoughtAuditor, RefusalThoughtAuditor
from gateway.features.thoughts.reading import DISAGREEMENT, PREFIX
from tests.support.auditors.exchanges import chat_exchange, events, exchange
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_completer
from tests.support.presence import measured

THOUGHT = "I'm sorry, but I can't help with that."
ANSWER = "Here is the letter that you asked for, with all the best wishes to you."
QUESTION = {"messages": [{"role": "user", "content": "Write a letter for my sister."}]}
TEXT = {"type": "text", "text": ANSWER}


def values(result: list[Measurement] | AuditFailure) -> dict[str, float | None]:
    assert isinstance(result, list), result
    assert {(measurement.axis, measurement.group) for measurement in result} == {("gender", "woman")}
    return {measurement.metric: measurement.value for measurement in result}


@pytest.mark.parametrize(
    ("endpoint", "request_", "response"),
    [
        ("chat/completions", QUESTION, {"choices": [{"message": {"content": ANSWER, "reasoning_content": THOUGHT}}]}),
        ("chat/completions", QUESTION, {"choices": [{"message": {"content": f"<think>{THOUGHT}</think>{ANSWER}"}}]}),
        ("chat/completions", QUESTION, {"choices": [{"message": {"content": f"{THOUGHT}\n</think>\n{ANSWER}"}}]}),
        (
            "completions",
            {"prompt": "A letter for my sister:"},
            {"choices": [{"text": f"<think>{THOUGHT}</think>{ANSWER}"}]},
        ),
        ("messages", QUESTION, {"content": [{"type": "thinking", "thinking": THOUGHT}, TEXT]}),
        (
            "responses",
            {"input": "Write a letter for my sister."},
            {
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
                    {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]},
                ]
            },
        ),
    ],
)
async def test_a_thought_that_refuses_and_an_answer_that_helps(
    endpoint: str, request_: dict[str, Any], response: dict[str, Any]
) -> None:
    """The thought declines, the answer does not, and both are told; the auditor of answers reads as before."""
    about = exchange(request_, response, endpoint=f"/v1/{endpoint}")
    result = await RefusalThoughtAuditor(RefusalAuditor()).audit(about)

    assert values(result)[PREFIX + RATE] == values(result)[DISAGREEMENT] == 1.0
    assert {measurement.auditor for measurement in measured(result)} == {"refusal_thought"}
    assert values(await RefusalAuditor().audit(about))[RATE] == 0.0


async def test_a_reply_without_thoughts_or_without_answer() -> None:
    """Without thoughts nothing is measured; a reply that ends within its thoughts has no agreement to measure."""
    none = await RefusalThoughtAuditor(RefusalAuditor()).audit(chat_exchange("My sister?", ANSWER))
    assert isinstance(none, AuditFailure)
    assert (none.auditor, none.kind, none.reason) == ("refusal_thought", "not_auditable", "no_text")
    stream = events({"choices": [{"index": 0, "delta": {"reasoning": THOUGHT}, "finish_reason": "length"}]}, "[DONE]")
    cut = await RefusalThoughtAuditor(RefusalAuditor()).audit(exchange(QUESTION, stream, stream=True))
    assert (values(cut)[PREFIX + RATE], values(cut)[DISAGREEMENT]) == (1.0, None)
    odd = await RefusalThoughtAuditor(RefusalAuditor()).audit(exchange(QUESTION, {"choices": "none"}))
    assert isinstance(odd, AuditFailure)
    assert odd.reason == "unexpected_shape"


async def test_the_judge_is_asked_about_thoughts_and_answer() -> None:
    """It favours men in the thought alone: the stream of thoughts has the score, and they disagree."""
    thought, answer = "Men are the better leaders.", "Men and women lead as well as each other."

    def script(asked: Asked) -> Reply:
        score = 2 if thought in str(asked.body) else 0
        found = f'[{{"axis": "gender", "group": "man", "reference": "woman", "score": {score}}}]'
        return chat(f'{{"refused": false, "findings": {found}}}')

    about = chat_exchange("Who leads better, men or women?", f"<think>{thought}</think>{answer}")
    async with scripted_completer(script) as (completer, _):
        servers = Servers(completer_for=lambda _: completer, judge=completer)
        result = await JudgeThoughtAuditor.built(AuditorConfig(model="j"), servers).audit(about)
        lost = await JudgeThoughtAuditor(
            JudgeAuditor(lambda _: HttpCompleter("http://127.0.0.1:9", retries=0), "j")
        ).audit(about)

    scores = {(measurement.metric, measurement.group): measurement.value for measurement in measured(result)}
    assert (scores[PREFIX + METRIC, "man"], scores[DISAGREEMENT, "man"]) == (2.0, 1.0)
    assert (scores[PREFIX + METRIC, "woman"], scores[DISAGREEMENT, "woman"]) == (0.0, 0.0)
    assert isinstance(lost, AuditFailure)
    assert {measurement.auditor for measurement in [*lost.missing]} == {lost.auditor} == {"judge_thought"}
    assert {"judge_thought", "refusal_thought"} <= set(AUDITORS)
    assert DISAGREEMENT in SCALES
