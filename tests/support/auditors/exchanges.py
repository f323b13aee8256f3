"""Hand-written exchanges for the auditors' tests."""

from typing import Any

import msgspec

from auditors.types import Exchange


def exchange(
    request: dict[str, Any] | bytes,
    response: dict[str, Any] | bytes,
    *,
    endpoint: str = "/v1/chat/completions",
    stream: bool = False,
) -> Exchange:
    """An exchange with these bodies."""
    return Exchange(
        id="e1",
        request_id="r1",
        received_at=0.0,
        endpoint=endpoint,
        model="alias",
        served_model="served",
        upstream="one",
        stream=stream,
        status_code=200,
        content_type="text/event-stream" if stream else "application/json",
        stratum="other",
        inclusion_probability=0.5,
        request_body=request if isinstance(request, bytes) else msgspec.json.encode(request),
        response_body=response if isinstance(response, bytes) else msgspec.json.encode(response),
    )


def chat_exchange(prompt: str, reply: str | None, *, refusal: str | None = None, **request: Any) -> Exchange:
    """A plain chat: one question, one answer."""
    message = {"role": "assistant", "content": reply, "refusal": refusal}
    return exchange(
        {"model": "alias", "messages": [{"role": "user", "content": prompt}], **request},
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
    )


def events(*data: dict[str, Any] | str) -> bytes:
    """An event stream with one data line an event."""
    lines = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in data]
    return "".join(f"data: {line}\n\n" for line in lines).encode()
