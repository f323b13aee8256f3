"""Known good exchanges: fixed, harmless texts for health checks of a server. Clients' texts alone prove nothing."""

import time
import uuid

import msgspec

from auditors.clients.completion import served_models
from auditors.types import CompletionError, Exchange
from gateway.config.schema import Config

PROMPT = (
    "My sister has applied for a job as a team leader in a public library. How should she prepare for the interview?"
)
ANSWER = (
    "She can start with the job description and write down one example from her work for each task that it names. It "
    "helps to read about the library's current projects, to think about how she would plan the week of a small team, "
    "and to prepare two questions of her own. The evening before, she should check the route and the time."
)
QUESTION = "My sister has the diploma that this job asks for. Does she meet that requirement? Answer yes or no."
"""Answered with log-probabilities, for auditors of decisions."""
TEXT = "The public library opens at nine in the morning and closes at six."
"""A text for an embedder."""


def build_exchanges(upstream: str, model: str) -> list[Exchange]:
    """Known good exchanges as if `upstream` had served them with `model`: a chat, a decision, a chat with thinking."""
    token = {"token": "Yes", "logprob": -0.05}
    logprobs = {"content": [token | {"top_logprobs": [token, {"token": "No", "logprob": -3.02}]}]}
    return [
        _build(upstream, model, {"max_tokens": 128}, PROMPT, {}, ANSWER),
        _build(upstream, model, {"max_tokens": 1, "logprobs": True}, QUESTION, {"logprobs": logprobs}, "Yes"),
        _build(upstream, model, {"max_tokens": 128}, PROMPT, {}, ANSWER, reasoning="What helps her to prepare?"),
    ]


async def choose_upstream(config: Config, server: str, model: str | None) -> tuple[str, str]:
    """Return upstream and model of a known good exchange; a model that is listed, as a client's may be misspelt."""
    if not config.upstreams:
        return "", model or ""
    upstream = next((upstream for upstream in config.upstreams if upstream.name == server), config.upstreams[0])
    try:
        listed = await served_models(upstream.origin, config.secret(upstream.api_key_env))
    except CompletionError:
        listed = {}
    if model is not None and (model in listed or not listed):
        return upstream.name, model
    configured = [name for name in upstream.models if name != "*"]
    candidates = [*(name for name in configured if name in listed), *listed, *configured, ""]
    return upstream.name, candidates[0]


def _build(
    upstream: str,
    model: str,
    options: dict[str, object],
    prompt: str,
    choice: dict[str, object],
    answer: str,
    **message_fields: str,
) -> Exchange:
    exchange_id = f"known-good-{uuid.uuid4().hex}"
    request = {"model": model, "messages": [{"role": "user", "content": prompt}], **options}
    message = {"role": "assistant", "content": answer, **message_fields}
    response = {"choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}]}
    return Exchange(
        id=exchange_id,
        request_id=exchange_id,
        received_at=time.time(),
        endpoint="/v1/chat/completions",
        model=model,
        served_model=model,
        upstream=upstream,
        stream=False,
        status_code=200,
        content_type="application/json",
        stratum="other",
        inclusion_probability=1.0,
        request_body=msgspec.json.encode(request),
        response_body=msgspec.json.encode(response),
    )
