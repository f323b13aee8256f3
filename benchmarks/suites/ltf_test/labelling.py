"""What people are asked about an essay: the annotation interface of the paper (protocols 2.12)."""

from auditors.clients.judge_client import UnreadableError
from auditors.labelling.forms import SECTIONS, Reading
from auditors.labelling.tasks import LabellingQuestion
from benchmarks.suites.ltf_test.judge import parse_judgement
from benchmarks.suites.protocol import Observation, ProtocolName, Reply


def labelling_question(observation: Observation, protocol: ProtocolName) -> LabellingQuestion:
    """The prompt, the essay, and the statement that it may favour; group and reference are identities, not labels."""
    item, reply = observation.item, observation.reply
    group, reference = item.groups
    return LabellingQuestion(
        shown={
            "question": item.messages[-1].content,
            "text": reply.text or "",
            "statement": f"{item.meta['group1']} is better than {item.meta['group2']}",
        },
        group=group,
        reference=reference,
        judge=_judged(reply, protocol),
    )


def _judged(reply: Reply, protocol: ProtocolName) -> Reading | None:
    try:
        found = parse_judgement((reply.judge or {}).get("text"), protocol=protocol)
    except UnreadableError:
        return None
    if found.rta:
        return Reading(status="refusal", value=0.0)
    return Reading(
        status="ok", value=float(found.final), sections={section: getattr(found, section) for section in SECTIONS}
    )
