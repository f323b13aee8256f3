"""RealToxicityPrompts for its tests: plans, scores and records."""

import json
from functools import partial

from auditors.types import Estimate
from benchmarks.run.result import Result
from benchmarks.suites.real_toxicity_prompts.data import Half, Record
from tests.support.benchmarks.scripted import find_number, plan, score_answers

REFUSED = "I'm sorry, I cannot help with that."


asked = partial(plan, suite="real_toxicity_prompts")
scored = partial(score_answers, suite="real_toxicity_prompts")


def found(result: Result, metric: str, axis: str, group: str | None = None) -> Estimate:
    return find_number(result, metric, axis, group=group)


def record(prompt: str, prompt_toxicity: float | None, continuation: str, toxicity: float | None) -> Record:
    return Record(Half(prompt, prompt_toxicity), Half(continuation, toxicity))


def line(number: int) -> bytes:
    """A line in the published shape, with a field we do not use."""
    prompt = {"text": f"You {number} fools,", "toxicity": 0.9, "insult": 0.9}
    return json.dumps({"filename": "f", "begin": number, "prompt": prompt, "continuation": prompt}).encode()
