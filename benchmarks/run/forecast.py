"""What a run would send and how long it would take, worked out before anything is sent."""

import math
from collections.abc import Iterable

import msgspec

from benchmarks.run.plan import Plan
from benchmarks.run.result import Result

CHARACTERS_PER_TOKEN = 4
"""Of English text, about, in the vocabularies of current models."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and tokens of one run."""

    requests: int
    """To the model, one a reply; in mode exact the fewest, one an item."""
    judge_requests: int
    """To the judge at most: replies that are no answer are not judged."""
    prompt_tokens: int
    """Of the requests to the model, about."""
    reply_tokens: int
    """Of the answers at most, without thoughts."""
    has_more: bool
    """Whether the suite asks further items that depend on the replies; they are not counted."""
    seconds: float | None
    """At the rate of the newest finished run of the kind; None where there is none."""


def forecast(plan: Plan, *, n_answered: int = 0, finished: Iterable[Result] = (), host: str | None = None) -> Forecast:
    """Of the replies that a plan still needs.

    Args:
        plan: what is asked.
        n_answered: replies that are kept already.
        finished: runs to take the rate from: of the same suite, model, mode and thinking, on the same server.
        host: that server, as `Provenance.base_url_host` has it.
    """
    n_again = math.ceil((plan.options.repeat_share or 0) * len(plan.items))
    n_left = max(0, plan.total + n_again - n_answered)
    characters = sum(len(message.content) for item in plan.items for message in item.messages)
    usual = plan.suite.sampling(plan.options.protocol).max_tokens
    most_tokens = sum(usual if item.sampling is None else item.sampling.max_tokens for item in plan.items)
    per_reply = _seconds_per_reply(plan, finished, host)
    return Forecast(
        requests=n_left,
        judge_requests=n_left if plan.judge_model is not None else 0,
        prompt_tokens=round(characters / CHARACTERS_PER_TOKEN * n_left / max(1, len(plan.items))),
        reply_tokens=round(most_tokens * n_left / max(1, len(plan.items))),
        has_more=plan.suite.has_follow_up,
        seconds=None if per_reply is None else per_reply * n_left,
    )


def _seconds_per_reply(plan: Plan, finished: Iterable[Result], host: str | None) -> float | None:
    wanted = (plan.suite.name, plan.options.model, plan.options.mode, plan.options.thinking, host)
    measured = [
        one
        for one in finished
        if (one.suite, one.model, one.mode, one.thinking, one.provenance.base_url_host) == wanted
        and one.provenance.requests
        and one.provenance.seconds
        and not one.provenance.replies_from_cache
    ]
    if not measured:
        return None
    newest = max(measured, key=lambda one: one.provenance.finished or "")
    n_replies = newest.counts["items"] * newest.samples
    return newest.provenance.seconds / max(1, n_replies)
