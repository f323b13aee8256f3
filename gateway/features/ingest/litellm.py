"""Reads records of LiteLLM's callback `generic_api` (whole exchanges) and calls of its guardrail API (halves)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.features.ingest.rates import Rates
from gateway.features.ingest.received import (
    CHAT,
    MOST_MESSAGES,
    Json,
    Part,
    Sent,
    UnreadableError,
    completed,
    exchange_id,
    merged,
    number_of,
    object_of,
    read_each,
    text_of,
)
from gateway.sampling.decision import PROBE_HEADER

RATE_FIELD, TAG_FIELD = "biasgate_sampling_rate", "biasgate_tag"
"""Names in metadata or a guardrail's extra parameters. Any user can write them: rates count in `RATE_HEADER` alone."""
REDACTED = "redacted-by-litellm"
"""Written by LiteLLM in place of text under `turn_off_message_logging`."""
FAILED = 500
_PARAMETERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "n")
_MOST_CHOICES = 128


def is_record(data: Any) -> bool:
    """Return whether this is a record of the callback."""
    return isinstance(data, dict) and "call_type" in data and "response" in data and "messages" in data


def is_guardrail_call(data: Any) -> bool:
    """Return whether this is a call of the guardrail API."""
    return isinstance(data, dict) and "input_type" in data


def read_records(records: Iterable[Any], sender: str | None, rates: Rates | None = None) -> Sent:
    """Read a batch of the callback. `rates` decides which stated sampling rates count; without it none does."""
    rates = rates or Rates()
    sent = read_each(records, lambda record: read_record(record, sender, rates), name="record")
    return msgspec.structs.replace(sent, n_ignored_rates=rates.n_ignored)


def read_record(record: Any, sender: str | None, rates: Rates) -> Part:
    """One record; Received, if it has text. Raises UnreadableError for anything else."""
    if not is_record(record):
        raise UnreadableError('no record of LiteLLM\'s callback: it has no "call_type", "messages" and "response"')
    metadata = object_of(record.get("metadata"))
    request_metadata = object_of(metadata.get("spend_logs_metadata")) | object_of(metadata.get("requester_metadata"))
    rates.ignore(request_metadata.get(RATE_FIELD))
    call = text_of(record.get("litellm_call_id")) or text_of(record.get("id"))
    key = exchange_id(sender, call)
    started, ended = number_of(record.get("startTime")), number_of(record.get("endTime"))
    first = number_of(record.get("completionStartTime"))
    endpoint, request, response = _bodies(record)
    part = Part(
        id=key,
        request_id=text_of(record.get("id")) or call or key,
        at=started,
        model=text_of(record.get("model_group")) or text_of(record.get("model")),
        request=request,
        response=response,
        endpoint=endpoint,
        status=200 if record.get("status", "success") == "success" else FAILED,
        sender_rate=rates.of_request,
        tag=text_of(request_metadata.get(TAG_FIELD), 64),
        opt="off" if is_probe(metadata.get("requester_custom_headers")) else None,
        seconds=ended - started if started and ended and ended >= started else None,
        stream=bool(record.get("stream")),
        first_chunk_seconds=first - started if first and started and first >= started else None,
    )
    return part if request is None or response is None else completed(part)


def read_guardrail_call(data: Json, sender: str | None, rates: Rates | None = None) -> Part:
    """One side of an exchange. Raises UnreadableError where that is not to be told."""
    rates = rates or Rates()
    side, texts = data.get("input_type"), data.get("texts")
    if side not in ("request", "response"):
        raise UnreadableError(f'input_type is {str(side)[:40]!r}: a guardrail is called with "request" or "response"')
    most = MOST_MESSAGES if side == "request" else _MOST_CHOICES
    contents = [text for text in texts[:most] if isinstance(text, str)] if isinstance(texts, list) else []
    extra = object_of(data.get("additional_provider_specific_params"))
    rates.ignore(extra.get(RATE_FIELD))
    call = text_of(data.get("litellm_call_id"))
    key = exchange_id(sender, call)
    messages = data.get("structured_messages")
    whole = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    request_messages = whole or [{"role": "user", "content": content} for content in contents]
    calls = data.get("tool_calls")
    answered: list[Json] = [
        {"index": index, "message": {"role": "assistant", "content": content}} for index, content in enumerate(contents)
    ]
    if isinstance(calls, list) and calls:
        answered = answered or [{"index": 0, "message": {"role": "assistant", "content": None}}]
        answered[0]["message"]["tool_calls"] = [call for call in calls if isinstance(call, dict)]
    return Part(
        id=key,
        request_id=call or key,
        model=text_of(data.get("model")),
        asked=request_messages if side == "request" else [],
        answered=answered if side == "response" else [],
        sender_rate=rates.of_request,
        tag=text_of(extra.get(TAG_FIELD), 64),
        opt="off" if is_probe(data.get("request_headers")) else None,
    )


def together(first: Part, more: Part) -> Part:
    """Merge two calls of a guardrail into one part. Each call has all messages: the longer list stands."""
    answered = merged([msgspec.structs.replace(part, asked=[]) for part in (first, more)])
    return msgspec.structs.replace(answered, asked=max(first.asked, more.asked, key=len))


def _bodies(record: Json) -> tuple[str, bytes | None, bytes | None]:
    """Return endpoint, request and response; None in place of a body without text."""
    messages, response = record.get("messages"), record.get("response")
    fields = {name: value for name, value in object_of(record.get("model_parameters")).items() if name in _PARAMETERS}
    if end_user := text_of(record.get("end_user")):
        fields["user"] = end_user
    model = text_of(record.get("model_group")) or text_of(record.get("model")) or ""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}] if messages else []
    if isinstance(messages, dict):
        messages = messages.get("messages")
    request_messages = messages if isinstance(messages, list) and not _is_redacted(messages) else []
    if isinstance(response, str):
        response = (
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": response}}]} if response else {}
        )
    response = object_of(response)
    endpoint, field = CHAT, "messages"
    if isinstance(response.get("output"), list):
        endpoint, field = "/v1/responses", "input"
    elif isinstance(response.get("content"), list):
        endpoint = "/v1/messages"
    elif isinstance(choices := response.get("choices"), list):
        response = {**response, "choices": [_as_chat(choice) for choice in choices]}
    has_answer = any(isinstance(response.get(name), list) for name in ("output", "content", "choices"))
    has_answer = has_answer and REDACTED.encode() not in msgspec.json.encode(response)[:10_000]
    request = msgspec.json.encode({**fields, "model": model, field: request_messages}) if request_messages else None
    return endpoint, request, msgspec.json.encode(response) if has_answer else None


def _as_chat(choice: Any) -> Any:
    if not isinstance(choice, dict) or "message" in choice or not isinstance(choice.get("text"), str):
        return choice
    return {**choice, "message": {"role": "assistant", "content": choice["text"]}}


def _is_redacted(messages: Sequence[Any]) -> bool:
    return any(isinstance(message, dict) and message.get("content") == REDACTED for message in messages)


def is_probe(headers: Any) -> bool:
    """Return whether the request had an auditor's mark; LiteLLM shows that it was there, and not always its value."""
    return isinstance(headers, Mapping) and any(str(name).lower() == PROBE_HEADER for name in headers)
