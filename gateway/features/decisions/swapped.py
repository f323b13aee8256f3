"""The same decision about another group: the group is exchanged in its state and in all other parts that name it.

A state is often an object, such as `{"gender": "female", "income": 41000}`, whose values are read by the names of their
members (`text.swaps.members`). These names, ids of questions and labels cannot be exchanged without asking something
else: where one of them names a group of the axis, the decision is left alone.
"""

from typing import Any

from auditors.text.conversation import NotAuditableError
from auditors.text.swaps.axis_order import axis_order, plainest
from auditors.text.swaps.leaves import MOST_TEXTS, leaves, member_names, with_leaves
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.members import NAMED_IN_MEMBERS, bare, framed, names_a_group
from auditors.text.swaps.outcome import Abstained, NotSwapped, Swapped
from auditors.text.swaps.swap import LONGEST_CHARS, swap
from gateway.features.decisions.questions import Decision

NAMED_IN_LABELS = "a label names the group"
MEDIA = "[media]"
"""Mark in a stored request in place of media, which are not kept."""


def swapped_decision(exchange_id: str, decision: Decision) -> tuple[Swapped, Any] | NotSwapped:
    """The first axis on which the decision can be swapped, in an order that the exchange's id decides.

    Returns: the swap and the decision's content after it; or the plainest reason why there is none.
    Raises: NotAuditableError when a part of the request was not kept.
    """
    content = decision.content
    content_leaves = list(leaves(content))
    if any(leaf.text == MEDIA for leaf in content_leaves):
        raise NotAuditableError("media", "a part of the request was not kept")
    first_axis = next(iter(SLOTS))
    if len(content_leaves) > MOST_TEXTS or sum(len(leaf.text) for leaf in content_leaves) > LONGEST_CHARS:
        return Abstained(axis=first_axis, reason="too long")
    order = axis_order(exchange_id)
    reasons: list[NotSwapped] = []
    members = list(member_names(content))
    for axis in order.axes:
        swapped = swap([framed(leaf, axis) for leaf in content_leaves], axis, choice=order.choice)
        if isinstance(swapped, Abstained):
            reasons.append(swapped)
        elif names_a_group(decision.names, axis):
            reasons.append(NotSwapped(axis=axis, reason=NAMED_IN_LABELS, group=swapped.group))
        elif names_a_group(members, axis):
            reasons.append(NotSwapped(axis=axis, reason=NAMED_IN_MEMBERS, group=swapped.group))
        else:
            texts = (bare(text, leaf, axis) for text, leaf in zip(swapped.texts, content_leaves, strict=True))
            return swapped, with_leaves(content, texts)
    return plainest(reasons)
