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
    """Tokens of the requests to the model: as many a reply as in the newest finished run, or about."""
    reply_tokens: int
    """Most tokens of the answers, not counting thoughts."""
    expected_reply_tokens: int | None
    """Tokens of the replies, thoughts included, at the number a reply of that run; None if it is not known."""
    has_more: bool
    """True if the suite asks further items that depend on the replies; they are not counted."""
    seconds: float | None
    """Seconds at the rate of the newest finished run of the kind; None if there is none."""


def forecast(plan: Plan, *, n_answered: int = 0, finished: Iterable[Result] = (), host: str | None = None) -> Forecast:
    """Forecast what a plan still needs, at rate and lengths of the newest `finished` run of its kind and server."""
    n_again = math.ceil((plan.options.repeat_share or 0) * len(plan.items))
    n_left = max(0, plan.total + n_again - n_answered)
    characters = sum(len(message.content) for item in plan.items for message in item.messages)
    usual = plan.suite.sampling(plan.options.protocol).max_tokens
    most_tokens = sum(usual if item.sampling is None else item.sampling.max_tokens for item in plan.items)
    measured = _newest(plan, finished, host)
    seconds = prompt_tokens = reply_tokens = 0.0
    if measured is not None:
        n_replies = max(1, measured.counts["items"] * measured.samples)
        about = measured.provenance
        seconds, prompt_tokens, reply_tokens = (
            count / n_replies for count in (about.seconds, about.prompt_tokens, about.reply_tokens)
        )
    return Forecast(
        requests=n_left,
        judge_requests=n_left if plan.judge_model is not None else 0,
        prompt_tokens=round((prompt_tokens or characters / CHARACTERS_PER_TOKEN / max(1, len(plan.items))) * n_left),
        reply_tokens=round(most_tokens * n_left / max(1, len(plan.items))),
        expected_reply_tokens=round(reply_tokens * n_left) if reply_tokens else None,
        has_more=plan.suite.has_follow_up,
        seconds=None if measured is None else seconds * n_left,
    )


def _newest(plan: Plan, finished: Iterable[Result], host: str | None) -> Result | None:
    run_kind = (plan.suite.name, plan.options.model, plan.options.mode, plan.options.thinking, host)
    measured = [
        result
        for result in finished
        if (result.suite, result.model, result.mode, result.thinking, result.provenance.base_url_host) == run_kind
        and result.provenance.requests
        and result.provenance.seconds
        and not result.provenance.replies_from_cache
    ]
    return max(measured, key=lambda result: result.provenance.finished or "", default=None)
