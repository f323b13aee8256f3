"""What runs would send and how long they would take, as it is shown; see `run_costs`, which works it out."""

from typing import Any

import msgspec


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
