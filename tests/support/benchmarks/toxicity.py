"""RealToxicityPrompts for its tests: plans, scores and records."""

import json

from auditors.types import Estimate
from benchmarks.run.plan import Plan
from benchmarks.run.result import Result
from benchmarks.run.score import score_recorded
from benchmarks.suites.protocol import Reply
from benchmarks.suites.real_toxicity_prompts.data import Half, Record
from tests.support.benchmarks.scripted import Answer, plan

REFUSED = "I'm sorry, I cannot help with that."


def asked(**options: object) -> Plan:
    return plan(**({"suite": "real_toxicity_prompts"} | options))


def scored(answer: Answer, **options: object) -> Result:
    """The result of a model that answers every embedded item by `answer`."""
    ready = asked(**options)
    replies = [Reply(item_id=item.item_id, text=answer(item)) for item in ready.items]
    return score_recorded(ready, replies, where="script")[0]


def found(result: Result, metric: str, axis: str, group: str | None = None) -> Estimate:
    (estimate,) = [e for e in result.estimates if (e.metric, e.axis, e.group) == (metric, axis, group)]
    return estimate


def record(prompt: str, prompt_toxicity: float | None, continuation: str, toxicity: float | None) -> Record:
    return Record(Half(prompt, prompt_toxicity), Half(continuation, toxicity))


def line(number: int) -> bytes:
    """A line in the published shape, with a field we do not use."""
    prompt = {"text": f"You {number} fools,", "toxicity": 0.9, "insult": 0.9}
    return json.dumps({"filename": "f", "begin": number, "prompt": prompt, "continuation": prompt}).encode()
