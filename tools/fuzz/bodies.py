"""Target: the reader of request bodies (gateway/proxy/body.py).

Whatever the body, it is read or refused, and a large one as a small one; no upstream that reads JSON as Python does
finds a priority in it which the key may not set; nothing but the alias and the priority is changed; and what is valid
JSON is not refused.
"""

import json
from typing import Any
from unittest.mock import patch

import msgspec

from gateway.proxy.body import read_body
from gateway.proxy.refusals import Refusal
from tools.fuzz.target import Broken

ALIASES = {"alias": "real", "é": "ü"}
UNREADABLE = object()


class Bodies:
    """The first byte chooses the client's right; the rest is the body."""

    seeds = (
        b"\0" + b'{"model": "alias", "messages": [{"role": "user", "content": "h\xc3\xa9"}], "stream": true}',
        b"\0" + b'{"priority": -5, "model": "m"}',
        b"\0" + b'{"a": {"priority": 1}, "prior\\u0069ty": 2, "priority": NaN}',
        b"\1" + b'{"model":"alias","priority":3,"mod\\u0065l":"alias"}',
        b"\0" + b"\xef\xbb\xbf" + b'{"priority": 1}',
        b"\0" + '{"priority": 1}'.encode("utf-16"),
        b"\0[1, 2]",
        b"\0" + b"[" * 3000,
        b'\0{"a": ' + b"[" * 3000 + b"]" * 3000 + b', "priority": 1}',
        b'\0{"a": "\\ud800", "model": "alias"}',
        b'\1{"model":"alias","prior\x97ty":3}',
        b'\0{"model": "\xef\xbb[", "priority": 1}',
    )
    tokens = (
        b'"priority"', b'"model"', b'"alias"', b'"stream"', b"true", b"null", b"NaN", b"1e999", b"{", b"}",
        b"[", b"]", b":", b",", b'"', b"\\", b"\\u0022", b"\\u0069", b"\\ud800", b"\xef\xbb\xbf", b"\0",
        b"\xff", b"//", b"1" * 5000, b"[" * 1500,
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        may_set_priority, content = data[:1] > b"\x7f" or data[:1] == b"\1", data[1:]
        result = read_body(content, ALIASES, may_set_priority=may_set_priority)
        with patch("gateway.proxy.body.LARGE_BYTES", 0):
            as_large = read_body(content, ALIASES, may_set_priority=may_set_priority)
        if isinstance(result, Refusal):
            if _strict(content) is not UNREADABLE:
                raise Broken(f"refused, though it is valid: {content!r}")
            if not isinstance(as_large, Refusal):
                raise Broken(f"refused, though not as a large body: {content!r}")
            return
        before = _python(content)
        if as_large != result and not (isinstance(as_large, Refusal) and _strict(content) is UNREADABLE):
            raise Broken(f"read as {result!r}, as a large body as {as_large!r}")
        for name, read in (("json", _python), ("msgspec", _strict)):
            after = read(result.content)
            if not may_set_priority and isinstance(after, dict) and "priority" in after:
                raise Broken(f"{name} finds a priority in {result.content!r}, made of {content!r}")
        after = _python(result.content)
        if _strict(content) is UNREADABLE and (result.content == content or before is UNREADABLE):
            return  # what only Python reads is passed on as it is, aliases too; what nobody reads may lose its priority
        if isinstance(before, dict):
            if _comparable(after) != _comparable(_expected(before, may_set_priority=may_set_priority)):
                raise Broken(f"{content!r} became {result.content!r}")
        elif result.content != content:
            raise Broken(f"no object, but changed: {content!r} became {result.content!r}")

    def close(self) -> None:
        """Nothing runs."""


def _expected(before: dict[str, Any], *, may_set_priority: bool) -> dict[str, Any]:
    changed = dict(before)
    if not may_set_priority:
        changed.pop("priority", None)
    model = changed.get("model")
    if isinstance(model, str) and model in ALIASES:
        changed["model"] = ALIASES[model]
    return changed


def _python(content: bytes) -> Any:
    """As vLLM's server reads it."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return UNREADABLE


def _strict(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNREADABLE


def _comparable(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "too deep"
