"""Reads the bodies of an exchange, for every chat-like endpoint.

Answers were joined before they were stored (`auditors.text.answers`); one that was not is joined here.
"""

from typing import Any

from auditors.text.answers.joined import joined, trimmed
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import read_json
from auditors.text.readers.chat import ChatReader, CompletionReader
from auditors.text.readers.messages import MessagesReader
from auditors.text.readers.reader import Reader
from auditors.text.readers.responses import ResponsesReader
from auditors.types import Exchange

_READERS: dict[str, type[Reader]] = {
    "/v1/chat/completions": ChatReader,
    "/v1/completions": CompletionReader,
    "/v1/responses": ResponsesReader,
    "/v1/messages": MessagesReader,
}


def read_conversation(exchange: Exchange) -> Conversation:
    """Return the conversation of an exchange. Raises NotAuditableError."""
    if exchange.endpoint not in _READERS:
        raise NotAuditableError("no_conversation", f"{exchange.endpoint} is not an endpoint with a conversation")
    reader = _READERS[exchange.endpoint](json_object(exchange.request_body, "request"))
    try:
        reader.read_request()
        reader.end_request()
        if is_event_stream(exchange):
            response = joined(exchange.endpoint, exchange.response_body)
        else:
            response = json_object(exchange.response_body, "response")
        reader.read_notes(response)
        reader.read_usage(response)
        reader.read_response(trimmed(exchange.endpoint, response) or response)
        return reader.conversation()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as exc:
        message = f"{exchange.endpoint}: unexpected shape: {type(exc).__name__}: {exc}"
        raise NotAuditableError("unexpected_shape", message) from exc


def json_object(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a stored body. Raises NotAuditableError, in which `what` names the body."""
    if not body:
        raise NotAuditableError("no_text", f"the {what} has no text: it was not JSON, or its text was dropped")
    try:
        data = read_json(body)
    except ValueError as exc:
        raise NotAuditableError("not_json", f"the {what} is not JSON: {exc}") from exc
    if not isinstance(data, dict):
        raise NotAuditableError("not_json", f"the {what} is not a JSON object")
    return data
