"""The forms of what is computed from stored runs: items, gates and costs. The modules `run_*` compute them."""

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


class GateWanted(msgspec.Struct, frozen=True, kw_only=True):
    audit_id: str
    requirements: list[str]
    allow_unvalidated_judge: bool


class ShownVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement, put to one number of the run."""

    requirement: str
    where: str
    """Keys of the number, e.g. "axis=gender"; "total"; "not judged" where it could be put to none."""
    passed: bool
    found: float | None
    """The field that the requirement names."""
    value: float | None
    lower: float | None
    upper: float | None
    n: int | None
    n_excluded: int | None
    reason: str | None
    """Why there is no number, which fails."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    passed: bool
    verdicts: list[ShownVerdict]


class CostWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that somebody thinks of starting."""

    options: list[dict[str, Any]]
    """Of each; see `gateway.config.audit_request.options_of`."""
    served_model: str
    """What serves under the model's name now."""
    host: str | None
    """Of the upstream that does."""
    left_out: dict[str, str]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run, or of all of them; a number that is not known is null."""

    items: int | None = None
    requests: int | None = None
    """To the model, one a reply; in mode exact the fewest, one an item."""
    judge_requests: int | None = None
    """To the judge, at most."""
    prompt_tokens: int | None = None
    """About."""
    reply_tokens: int | None = None
    """At most, without thoughts."""
    seconds: float | None = None
    """At the rate of the newest finished run of the suite, model, mode and thinking on this upstream."""


class SuiteCost(Cost, frozen=True, kw_only=True):
    suite: str
    has_more: bool = False
    """Whether it asks further items, made from its replies, which are not counted."""
    unknown_because: str | None = None
    """Why there is no number, or no time."""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    suites: list[SuiteCost]
    total: Cost
    left_out: dict[str, str]
    """Suites of "all" that cannot be run as asked, and why."""


def place(after: str | None) -> tuple[str, int] | None:
    """`after` as it came in a request, ITEM_ID:SAMPLE. Raises RequestError."""
    if after is None:
        return None
    item_id, _, sample = after.rpartition(":")
    if not item_id or not (sample.isascii() and sample.isdigit() and len(sample) <= 9):
        raise RequestError(f'after: "{after}" is no place in a run: send what "next" of the page before says')
    return item_id, int(sample)
