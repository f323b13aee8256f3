"""Identifies the conversation a request belongs to, so that all of its turns are answered in one arm of a policy.

Nothing is remembered from turn to turn, so every worker and gateway with one secret draws alike. A client sends the
whole conversation with each turn, and what stays the same in it is how it began: the key, whom the client names as its
user, and the first message of that user. System prompts are left out, as many hold the time of day.
"""

import hashlib
import hmac
from typing import Any, NamedTuple

import msgspec

from auditors.streams.arms import ID_CHARACTERS

LONGEST_TEXT = 64 * 1024
"""Bytes of a text that are hashed; of a longer text its two ends and its length."""
MOST_PARTS = 64
"""Parts of a message that are hashed."""
MOST_TURNS = 10_000
"""Turns of a conversation that is looked through: as many as a sentence can be added to."""

_RANGE = 2**53


class _Turn(msgspec.Struct, gc=False):
    role: Any = None
    content: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, gc=False):
    text: msgspec.Raw = msgspec.Raw(b"")


class _Chat(msgspec.Struct, gc=False):
    messages: list[_Turn]
    user: msgspec.Raw = msgspec.Raw(b"")
    safety_identifier: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_key: msgspec.Raw = msgspec.Raw(b"")
    metadata: Any = None


class _Responses(msgspec.Struct, gc=False):
    input: list[_Turn] | str = ""
    conversation: Any = None
    previous_response_id: Any = None
    user: msgspec.Raw = msgspec.Raw(b"")
    safety_identifier: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_key: msgspec.Raw = msgspec.Raw(b"")
    metadata: Any = None


_chat = msgspec.json.Decoder(_Chat).decode
_responses = msgspec.json.Decoder(_Responses).decode
_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode
_part = msgspec.json.Decoder(_Part).decode
_string = msgspec.json.Decoder(str).decode


class Draw(NamedTuple):
    """Result of the draw for a conversation, or for a request that belongs to none."""

    fraction: float
    """Number in [0, 1), uniform over conversations."""
    unit: str
    """ID_CHARACTERS hexadecimal digits that stand for the conversation; they tell nothing about its text."""


def draw(secret: bytes, policy: str, key: str | None, identity: list[bytes]) -> Draw:
    """Draw for a conversation (`conversation_of`, `identity_of_header`) of a client's key by HMAC-SHA256 under the
    secret: the same for each of its turns, in every gateway with the secret; each policy draws by itself.
    """
    hashed = hashlib.sha256()
    for part in identity:
        hashed.update(len(part).to_bytes(8))
        hashed.update(part)
    message = msgspec.json.encode(["conversation", policy, key, hashed.hexdigest()])
    digest = hmac.digest(secret, message, "sha256")
    return Draw((int.from_bytes(digest[:8]) >> 11) / _RANGE, digest[8 : 8 + ID_CHARACTERS // 2].hex())


def conversation_of(content: bytes, endpoint: str) -> list[bytes] | None:
    """Return what identifies the conversation of a request; None for a request that says too little to know it again.

    That is a request to /v1/completions, one that goes on from a `previous_response_id` alone, one without a message
    of a user, and a body that is not JSON of the endpoint's form.
    """
    try:
        if endpoint == "/v1/responses":
            return _of_responses(_responses(content))
        if endpoint == "/v1/completions":
            return None
        chat = _chat(content)
        return _of_turns(chat.messages, chat)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def identity_of_header(lines: list[bytes], prefix: bytes) -> list[bytes] | None:
    """Return what identifies the conversation by a header of the client's own, `prefix` being its name and ": "."""
    return next(([b"header", line] for line in lines if line.startswith(prefix)), None)


def _of_responses(body: _Responses) -> list[bytes] | None:
    conversation = body.conversation.get("id") if isinstance(body.conversation, dict) else body.conversation
    if isinstance(conversation, str) and conversation:
        return [b"id", conversation.encode("utf-8", "surrogatepass")]
    if body.previous_response_id is not None:
        return None
    if isinstance(body.input, str):
        return [b"text", *_named(body), _ends(body.input.encode())] if body.input else None
    return _of_turns(body.input, body)


def _of_turns(turns: list[_Turn], body: _Chat | _Responses) -> list[bytes] | None:
    if len(turns) > MOST_TURNS:
        return None
    first = next((turn for turn in turns if turn.role == "user"), None)
    return None if first is None else [b"text", *_named(body), *_texts(bytes(first.content))]


def _named(body: _Chat | _Responses) -> list[bytes]:
    user = body.metadata.get("user_id") if isinstance(body.metadata, dict) else None
    named = [bytes(raw) for raw in (body.user, body.safety_identifier, body.prompt_cache_key)]
    return [_ends(value) for value in (*named, user.encode() if isinstance(user, str) else b"")]


def _texts(content: bytes) -> list[bytes]:
    """Return the texts of a message, the same whether it is one string or in parts, without what clients add to parts.

    Marks such as `cache_control` wander from message to message as a conversation grows.
    """
    if content[:1] != b"[":
        return [_text(content)]
    return [_text(_text_of(bytes(part))) for part in _parts(content)[:MOST_PARTS]]


def _text_of(part: bytes) -> bytes:
    return (bytes(_part(part).text) or part) if part[:1] == b"{" else part


def _text(value: bytes) -> bytes:
    """Return a string as it reads, independent of the escapes in its JSON; any other value as it is written."""
    return _ends(_string(value).encode() if value[:1] == b'"' and len(value) <= LONGEST_TEXT else value)


def _ends(text: bytes) -> bytes:
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return b"%b%d%b" % (text[:half], len(text), text[-half:])
