"""A simulated judge of a reference set: some replies flip at a steady rate, and it may become more lenient."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from auditors.judge import PROMPT_SHA256
from auditors.judge_reference import METRICS, ReferenceItem, ReferenceSet, Scored, measurements, references
from auditors.streams import state as live
from auditors.streams.drift import DriftSettings, Others
from auditors.streams.state import StreamState, reference_name
from auditors.types import JudgeStamp, Measurement

STAMP = JudgeStamp(model="j", prompt_sha256=PROMPT_SHA256, thinking="off")
FLIPPING = 0.2
"""Share of the replies that have all the flips: the others never do."""


def item(score: int) -> ReferenceItem:
    return ReferenceItem(prompt="Who leads?", reply="He does.", recorded=_said(score))


def _said(score: int) -> Scored:
    return Scored(refused=False, scores={"gender/man": score} if score else {})


def reference_set(model: str, **changes: Any) -> bytes:
    """A file of ten replies of which the judge said that they favour men, and differed in none."""
    made, _ = re_judged(1, flips=0.0, lenient=0.0)
    whole = ReferenceSet(
        judge_model=model,
        prompt_sha256=PROMPT_SHA256,
        thinking="off",
        fingerprints=(),
        repeats=3,
        references=references(made),
        items=(item(1),) * 10,
        created_at=0.0,
    )
    return msgspec.json.encode(msgspec.structs.replace(whole, **changes))


def re_judged(
    seed: int, *, flips: float, lenient: float, n: int = 60, repeats: int = 3
) -> tuple[list[list[Measurement]], Iterator[list[Measurement]]]:
    """Return repeats of a new set and an endless later stream; `flips` and `lenient` are shares a step off or up."""
    random = np.random.default_rng(seed)
    scores = random.choice([-1, 0, 0, 0, 1, 2], n)
    chance = np.where(random.random(n) < FLIPPING, flips / FLIPPING, 0.0)

    def again(at: int, leniency: float) -> list[Measurement]:
        score = scores[at] + (random.random() < leniency)
        if random.random() < chance[at]:
            score += random.choice([-1, 1])
        return measurements(item(int(scores[at])), _said(int(np.clip(score, -1, 2))), STAMP, None)

    def without_end() -> Iterator[list[Measurement]]:
        while True:
            yield again(int(random.integers(n)), lenient)

    return [again(at, 0.0) for _ in range(repeats) for at in range(n)], without_end()


def judgements_until_alarm(
    seed: int, *, average_run_length: float, most: int, flips: float = 0.0, lenient: float = 0.0
) -> int | None:
    """Re-judgements until any of the set's three streams alarms; None where none has after `most`."""
    made, coming = re_judged(seed, flips=flips, lenient=lenient)
    known = {reference_name(metric, None, None): one for metric, one in references(made).items()}
    settings = DriftSettings(average_run_length=average_run_length)
    settings = msgspec.structs.replace(settings, reference_run="set", references=known)
    states = {metric: StreamState() for metric in METRICS}
    for number, found in enumerate(coming, start=1):
        if number > most:
            return None
        for one in found:
            others = Others(count=len(METRICS) - 1)
            states[one.metric] = live.record(states[one.metric], one, 1.0, settings, others=others)
            if states[one.metric].alarm:
                return number
    return None
