"""Reads requests with responses or halves: our form, Envoy's `http_buffered_trace`, LiteLLM's records, requests."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from auditors.text.answers.joined import joined
from auditors.text.lenient_json import read_json
from gateway.config.schema import AUDITED_PATHS
from gateway.features.ingest import litellm
from gateway.features.ingest.rates import Rates
from gateway.features.ingest.received import (
    CHAT,
    Json,
    Part,
    Sent,
    UnreadableError,
    completed,
    exchange_id,
    number_of,
    object_of,
    read_each,
    text_of,
)

KNOWN = frozenset(
    {
        *("id", "request", "response", "path", "model", "status", "time", "seconds", "content_type", "sampling_rate"),
        *("tag", "audit", "headers"),
    }
)
EVENTS = "text/event-stream"
JSON = "application/json"
_REQUEST_MEMBERS = ("messages", "prompt", "input")


def read(objects: Iterable[Any], sender: str | None, rates: Rates | None = None, *, name: str = "entry") -> Sent:
    """Read objects; an unreadable object is rejected by its number. Without `rates` no stated sampling rate counts."""
    rates = rates or Rates()
    sent = read_each(objects, lambda entry: read_one(entry, sender, rates), name=name)
    return msgspec.structs.replace(sent, n_ignored_rates=rates.n_ignored)


def read_one(data: Any, sender: str | None, rates: Rates) -> Part | None:
    """Read an exchange, or half of it; None if its endpoint is not audited. Raises UnreadableError."""
    if not isinstance(data, dict):
        raise UnreadableError("no JSON object")
    if litellm.is_record(data):
        return litellm.read_record(data, sender, rates)
    if isinstance(tap := data.get("http_buffered_trace"), dict):
        data = _from_tap(tap)
    elif "request" not in data and "response" not in data and any(name in data for name in _REQUEST_MEMBERS):
        data = {"request": data}  # a mirrored request, and nothing of ours around it
    if unknown := sorted(str(name) for name in data.keys() - KNOWN):
        raise UnreadableError(f'unknown member "{unknown[0][:40]}"; known: {", ".join(sorted(KNOWN))}')
    path = data.get("path", CHAT)
    if not isinstance(path, str):
        raise UnreadableError("path is not a string")
    path = path.partition("?")[0]
    if path not in AUDITED_PATHS:
        return None
    return _pair(data, path, sender, rates)


def _pair(data: Json, path: str, sender: str | None, rates: Rates) -> Part:
    request, response = _body(data.get("request"), "request"), _body(data.get("response"), "response")
    if request is None and response is None:
        raise UnreadableError('neither "request" nor "response": give one at least')
    there = text_of(data.get("id")) if not isinstance(data.get("id"), int) else str(data["id"])
    if there is None and not (request and response):
        raise UnreadableError('half of an exchange without "id", by which the other half would be found')
    status = data.get("status", 200)
    if not isinstance(status, int) or isinstance(status, bool):
        raise UnreadableError("status is not an integer")
    key = exchange_id(sender, there)
    request_json = _json_of(request)
    model = text_of(data.get("model")) or text_of(request_json.get("model"))
    marked = litellm.is_probe(data.get("headers"))
    content_type = text_of(data.get("content_type")) or (EVENTS if _is_event_text(response) else JSON)
    part = Part(
        id=key,
        request_id=there or key,
        at=number_of(data.get("time")),
        endpoint=path,
        model=model,
        request=request,
        response=response,
        status=status,
        content_type=content_type,
        stream=request_json.get("stream") is True,
        sender_rate=rates.of_exchange(data.get("sampling_rate"), "sampling_rate"),
        tag=text_of(data.get("tag"), 64),
        opt="off" if marked or data.get("audit") in ("off", False) else None,
        seconds=number_of(data.get("seconds")),
    )
    return completed(part) if request and response else _half(part)


def _half(part: Part) -> Part:
    """The joined form of a stream: text is redacted before it is kept, and a value may be split over events."""
    response = part.response
    if response is not None and part.content_type.startswith(EVENTS):
        response = msgspec.json.encode(joined(part.endpoint, response))
    return msgspec.structs.replace(part, response=response, content_type=JSON, stream=False)


def _body(value: Any, name: str) -> bytes | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, dict | list):
        return msgspec.json.encode(value)
    raise UnreadableError(f"{name} is neither an object nor text")


def _json_of(request: bytes | None) -> Json:
    try:
        data = read_json(request or b"{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _is_event_text(response: bytes | None) -> bool:
    return response is not None and response[:64].lstrip().startswith((b"data:", b"event:"))


def _from_tap(tap: Json) -> Json:
    """Return a tap of Envoy in our form; its headers are a client's, so no rate is read from them. Source:
    https://www.envoyproxy.io/docs/envoy/latest/api-v3/data/tap/v3/http.proto (HttpBufferedTrace).
    """
    request, response = object_of(tap.get("request")), object_of(tap.get("response"))
    request_headers, answered = _headers(request), _headers(response)
    for headers, side in ((request_headers, "request"), (answered, "response")):
        if headers.get("content-encoding", "identity") != "identity":
            raise UnreadableError(f"the {side} of the tap is compressed: tap it before it is, or ask for identity")
    status = answered.get(":status", "200")
    pair: Json = {
        "path": request_headers.get(":path", CHAT),
        "request": _tapped(request.get("body"), "request"),
        "response": _tapped(response.get("body"), "response"),
        "status": int(status) if status.isdigit() and len(status) == 3 else 500,
        "headers": request_headers,
    }
    if key := request_headers.get("x-request-id"):
        pair["id"] = key
    if kind := answered.get("content-type"):
        pair["content_type"] = kind
    return pair


def _headers(message: Json) -> dict[str, str]:
    listed = message.get("headers")
    ones = [header for header in listed if isinstance(header, dict)] if isinstance(listed, list) else []
    return {str(header.get("key")).lower(): str(header.get("value", "")) for header in ones}


def _tapped(body: Any, side: str) -> str | None:
    body = object_of(body)
    if body.get("truncated") is True:
        raise UnreadableError(f"the {side} of the tap is cut off: raise max_buffered_rx_bytes, max_buffered_tx_bytes")
    if isinstance(text := body.get("as_string"), str):
        return text
    if not isinstance(encoded := body.get("as_bytes"), str):
        return None
    try:
        return base64.b64decode(encoded).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as exc:
        raise UnreadableError(f"the {side} of the tap is not base64") from exc
