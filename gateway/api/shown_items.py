"""The replies of a run as they are shown one by one; see `run_items`, which makes them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from auditors.types import Status
from gateway.errors import RequestError

Filter = Status | Literal["failed"]
"""failed: no reply came, or its model did not finish thinking."""


class ItemsWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which replies of a run."""

    audit_id: str
    status: Filter | None
    changed_from: str | None
    """Only those that are read otherwise than this run's reply to the same item."""
    after: tuple[str, int] | None
    """(item_id, sample) of the last one seen."""
    limit: int


class OtherReply(msgspec.Struct, frozen=True):
    """What another run has in the same place."""

    status: Status
    reading: str
    reply: str | None


class ShownItem(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, what was asked, and how it was read. Of a longer text only the beginning is here."""

    item_id: str
    sample: int
    is_repeat: bool
    """Whether it was asked once more (`repeat_share`): it counts in no score."""
    axis: str | None
    groups: Sequence[str]
    subset: str | None
    prompt: str | None
    """None: see the page's `no_prompts_because`."""
    reply: str | None
    reasoning: str | None
    status: Status
    reading: str
    """In the suite's words; the status where the reply has no value."""
    rule: str | None
    choice_probabilities: dict[str, float] | None
    judge: dict[str, Any] | None
    """Who judged it, and what the judge said (`text`)."""
    finish_reason: str | None
    error: str | None
    other: OtherReply | None
    """Of the run named by `changed_from`."""


class ItemsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Replies in the order of item and sample."""

    items: list[ShownItem]
    next: str | None
    """For `after`; None: that was all. A page may have fewer than `limit`, or none, and others after it."""
    no_prompts_because: str | None


def place(after: str | None) -> tuple[str, int] | None:
    """`after` as it came in a request, ITEM_ID:SAMPLE. Raises RequestError."""
    if after is None:
        return None
    item_id, _, sample = after.rpartition(":")
    if not item_id or not (sample.isascii() and sample.isdigit() and len(sample) <= 9):
        raise RequestError(f'after: "{after}" is no place in a run: send what "next" of the page before says')
    return item_id, int(sample)
