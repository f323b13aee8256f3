"""Answers to requests on which a policy cannot be carried out, or that a filter refuses."""

from gateway.proxy.refusals import Refusal


def too_many_parts(limit: int) -> Refusal:
    return Refusal(
        400,
        "invalid_body",
        f"the body has more than {limit} messages, parts or members, among which its question would have to be found",
    )


def mitigation_impossible(policy: str) -> Refusal:
    return Refusal(
        400,
        "mitigation_impossible",
        f'policy "{policy}" of this gateway adds a sentence to each request, and this one has no text to add it to: '
        "ask in text, as JSON",
    )


def filter_impossible(policy: str, why: str) -> Refusal:
    return Refusal(400, "mitigation_impossible", f'policy "{policy}" of this gateway {why}')


def filter_unavailable(policy: str, filter: str, why: str) -> Refusal:
    return Refusal(
        503,
        "mitigation_unavailable",
        f'the {filter} of policy "{policy}" of this gateway {why}, and nothing passes without it: try again',
        retry_after_seconds=1,
    )


def query_refused(policy: str) -> Refusal:
    return Refusal(
        400,
        "query_refused",
        f'the query filter of policy "{policy}" of this gateway finds the request biased: ask without the premise',
    )


def response_refused(policy: str) -> Refusal:
    return Refusal(
        400, "response_refused", f'the response filter of policy "{policy}" of this gateway finds the answer biased'
    )
