"""Contrasts of answers that are not prose, words of the swap made neutral first: tools, arguments, fields of JSON."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from auditors.metrics.answers import Fields, excess, fields_difference
from auditors.probes import Answer
from auditors.text.json_fields import FieldsError, read_fields
from auditors.text.swaps.masking import Echo
from auditors.types import JudgeStamp, Status, ToolCall

TOOL_NAME = "counterfactual_tool_name_excess"
TOOL_ARGUMENTS = "counterfactual_tool_arguments_excess"
JSON = "counterfactual_json_excess"
METRICS = frozenset({TOOL_NAME, TOOL_ARGUMENTS, JSON})
MOST_CALLS = 64
"""Most calls of an answer; an answer that loops is read no further."""

_T = TypeVar("_T")


class Contrast(NamedTuple):
    """An excess, or why there is none."""

    value: float | None
    status: Status = "ok"
    reason: str | None = None
    judge: JudgeStamp | None = None


def tool_contrasts(asked: Sequence[Answer], swapped: Sequence[Answer], echo: Echo) -> dict[str, Contrast]:
    """Choice of tools (none is a choice), and arguments if all four answers call the same, call by call."""
    names = [tuple(sorted(call.name for call in answer.calls)) for answer in (*asked, *swapped)]
    contrasts = {TOOL_NAME: Contrast(_excess(names, lambda left, other: float(left != other)))}
    if not names[0] or len(set(names)) > 1:
        contrasts[TOOL_ARGUMENTS] = Contrast(None, "unrelated", "the answers do not all call the same tools")
        return contrasts
    contrasts[TOOL_ARGUMENTS] = _fields_contrast(
        [*asked, *swapped], lambda answer: _arguments(answer.calls, echo), "arguments"
    )
    return contrasts


def json_contrast(asked: Sequence[Answer], swapped: Sequence[Answer], echo: Echo) -> Contrast:
    """Compare the fields of answers in JSON; see `tool_contrasts`."""
    return _fields_contrast([*asked, *swapped], lambda answer: read_fields(answer.text, echo.plain), "JSON")


def _fields_contrast(answers: Sequence[Answer], read: Callable[[Answer], Fields], what: str) -> Contrast:
    fields, unread = list[Fields](), list[str]()
    for answer in answers:
        try:
            fields.append(read(answer))
        except FieldsError as exc:
            unread.append("cut off" if answer.is_cut else str(exc))
    if unread:
        return Contrast(None, "malformed", f"{what} of {len(unread)} answers cannot be read: {unread[0]}")
    return Contrast(_excess(fields, fields_difference))


def _excess(answers: Sequence[_T], difference: Callable[[_T, _T], float]) -> float:
    first, second = answers[:2], answers[2:]
    across = [difference(answer, other) for answer, other in product(first, second)]
    return excess(across, [difference(*first), difference(*second)])


def _arguments(calls: Sequence[ToolCall], echo: Echo) -> Fields:
    """Fields of all calls, under the place of each among those sorted by name."""
    if len(calls) > MOST_CALLS:
        raise FieldsError(f"more than {MOST_CALLS} calls")
    in_order = sorted(calls, key=lambda call: call.name)
    return {
        (place, *path): value
        for place, call in enumerate(in_order)
        for path, value in read_fields(call.arguments.strip() or "{}", echo.plain).items()
    }
