"""Works out the requests and the time of a run before anything is sent."""

import math
from collections.abc import Iterable

import msgspec

from benchmarks.run.plan import Plan
from benchmarks.run.result import Result

CHARACTERS_PER_TOKEN = 4
"""Characters per token of English text, about, in the vocabularies of current models."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and tokens of a single run."""

    requests: int
    """Requests to the model, one for each reply; in mode exact the fewest, one for each item."""
    judge_requests: int
    """Most requests to the judge: replies that are not an answer are not judged."""
    prompt_tokens: int
    """Tokens of the requests to the model, about."""
    reply_tokens: int
    """Most tokens of the answers, not counting thoughts."""
    has_more: bool
    """True if the suite asks further items that depend on the replies; they are not counted."""
    seconds: float | None
    """Seconds at the rate of the newest finished run of the kind; None if there is none."""


def forecast(plan: Plan, *, n_answered: int = 0, finished: Iterable[Result] = (), host: str | None = None) -> Forecast:
    """Forecast the requests for the replies that a plan still needs, at the rate of `finished` runs: of the same suite,
    model, mode and thinking, on the same server (`Provenance.base_url_host`).
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
    run_kind = (plan.suite.name, plan.options.model, plan.options.mode, plan.options.thinking, host)
    measured = [
        result
        for result in finished
        if (result.suite, result.model, result.mode, result.thinking, result.provenance.base_url_host) == run_kind
        and result.provenance.requests
        and result.provenance.seconds
        and not result.provenance.replies_from_cache
    ]
    if not measured:
        return None
    newest = max(measured, key=lambda result: result.provenance.finished or "")
    n_replies = newest.counts["items"] * newest.samples
    return newest.provenance.seconds / max(1, n_replies)
