"""The forms of what is computed from stored runs: items, gates and costs. The modules `run_*` compute them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from auditors.types import Status
from gateway.errors import RequestError

Filter = Status | Literal["failed"]
"""failed: no reply came, or its model did not finish thinking."""


class ItemsWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The replies of a run that are wanted."""

    audit_id: str
    status: Filter | None
    changed_from: str | None
    """Only those that are read otherwise than this run's reply to the same item."""
    axis: str | None = None
    group: str | None = None
    reading: str | None = None
    """As `ShownItem.reading`."""
    verdict: str | None = None
    """The reading of a reply that a judge read."""
    pairs: bool = False
    """Together with the other replies of its set."""
    after: tuple[str, int] | None
    """(item_id, sample) of the last one seen."""
    limit: int
    """Replies that pass; with `pairs`, sets of which a reply passes."""


class OtherReply(msgspec.Struct, frozen=True):
    """The reply of another run in the same place."""

    status: Status
    reading: str
    reply: str | None


class ShownItem(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, what was asked, and how it was read. Of a longer text only the beginning is here."""

    item_id: str
    sample: int
    is_repeat: bool
    """True if it was asked once more (`repeat_share`): it counts in no score."""
    is_beside: bool
    """True if no filter lets it through, and it stands here for a reply of its set."""
    set_id: str | None
    """The set of items that only mean something together, such as a pair about two groups."""
    axis: str | None
    groups: Sequence[str]
    subset: str | None
    prompt: str | None
    """The prompt; if None, see the page's `no_prompts_because`."""
    reply: str | None
    reasoning: str | None
    status: Status
    reading: str
    """The reading in the suite's words; the status if the reply has no value."""
    rule: str | None
    choice_probabilities: dict[str, float] | None
    judge: dict[str, Any] | None
    """The judge that judged it, and the judge's text (`text`)."""
    finish_reason: str | None
    error: str | None
    other: OtherReply | None
    """The reply of the run named by `changed_from`."""


class ItemsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Replies in the order of item and sample; with `pairs`, set after set."""

    items: list[ShownItem]
    next: str | None
    """Value for `after`; None: that was all. A page may have fewer than `limit`, or none, and others after it."""
    no_prompts_because: str | None
    choices: dict[str, dict[str, int]]
    """The values that `status`, `axis`, `group`, `reading` and `verdict` have in this run: an axis or a group with its
    items, the others with their replies among the first MOST_COUNTED."""


MOST_COUNTED = 20_000


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
    """Reason why there is not a number, which fails."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    passed: bool
    verdicts: list[ShownVerdict]


class CostWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that a user thinks of starting."""

    options: list[dict[str, Any]]
    """Options of each run; see `gateway.config.audit_request.options_of`."""
    served_model: str
    """The model that serves under the model's name now."""
    host: str | None
    """Host of the upstream that serves it."""
    left_out: dict[str, str]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a run, or of all of them; a number that is not known is null."""

    items: int | None = None
    requests: int | None = None
    """Requests to the model, a single request a reply; in mode exact the fewest, a single request an item."""
    judge_requests: int | None = None
    """Requests to the judge, at most."""
    prompt_tokens: int | None = None
    """About."""
    reply_tokens: int | None = None
    """Tokens of replies at most, without thoughts."""
    expected_reply_tokens: int | None = None
    """Tokens of replies at the length of those of that run, thoughts included; null if it did not count them."""
    seconds: float | None = None
    """Seconds at the rate of the newest finished run of the suite, model, mode and thinking on this upstream."""


class SuiteCost(Cost, frozen=True, kw_only=True):
    suite: str
    has_more: bool = False
    """True if it asks further items, made from its replies, which are not counted."""
    unknown_because: str | None = None
    """Reason why there is not a number, or not a time."""


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
        raise RequestError(f'after: "{after}" is not a place in a run: send "next" of the previous page')
    return item_id, int(sample)
