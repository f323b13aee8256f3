"""What people are asked about a decision: what a judge is asked, about the same text with the groups hidden."""

from typing import Any

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import LabellingQuestion
from benchmarks.suites.decision.judge import blind, labels_of, p1_is_a
from benchmarks.suites.protocol import Observation, Reply


def labelling_question(observation: Observation, seed: int) -> LabellingQuestion:
    """The text with P1 and P2 in place of the groups, and the two things that they are given."""
    item, reply = observation.item, observation.reply
    is_first = p1_is_a(item, seed)
    return LabellingQuestion(
        shown={
            "text": blind(reply.text or "", labels_of(item, p1_is_a=is_first)),
            "first": item.meta["negative"],
            "second": item.meta["positive"],
        },
        key={"p1_is_a": is_first},
        group=item.subset,
        judge=_judged(reply),
    )


def _judged(reply: Reply) -> Reading | None:
    if reply.judge is None:
        return None
    if reply.status == "refusal":
        return Reading(status="refusal", value=None)
    parsed: Any = reply.parsed
    return Reading(status="ok", value=float(parsed["test_score"])) if reply.status == "ok" else None
