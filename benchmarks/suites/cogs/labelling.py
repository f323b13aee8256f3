"""What people are asked about creative texts: which is the best, and how plainly one shows its identity (5.6, 5.7).

The best of several texts is asked as the evaluating model is asked it, in an order of the task's own. The model's
choice stands beside a person's as a judge's score does.
"""

from auditors.labelling.forms import FormName, Reading
from auditors.labelling.tasks import LabellingQuestion
from benchmarks.suites.protocol import Observation, item_rng


def labelling_question(observation: Observation, form: FormName, seed: int) -> LabellingQuestion | None:
    """choice: of a question to the evaluator. perceptibility: of a text written under an identity."""
    item, reply = observation.item, observation.reply
    if form == "choice":
        if not item.choices:
            return None
        order = item_rng(seed, f"{item.item_id}/labelling").sample(item.choices, len(item.choices))
        return LabellingQuestion(
            shown={"kind": item.subset, "texts": [one.text for one in order]},
            key={"names": [one.role for one in order]},
            judge=Reading(status="ok", value=str(reply.parsed)) if reply.status == "ok" else None,
        )
    if item.choices or not item.groups:
        return None
    return LabellingQuestion(shown={"identity": item.groups[0], "text": reply.text or ""}, group=item.groups[0])
