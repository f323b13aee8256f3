"""Target: what takes personal data out of stored texts (gateway/privacy/redaction.py and bodies.py).

Whatever surrounds an address, a card or a key, it goes; what comes out can be stored, and a body stays readable as what
it was. No input of this size takes a second.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec

from gateway.config.schema import Redacted
from gateway.privacy.bodies import redacted_request, redacted_response
from gateway.privacy.redaction import Redactor
from tools.fuzz.target import Broken, check_in_time

PLANTED = ("ann.smith@example.org", "4111111111111111", "sk-abcdefghijklmnop1234", "198.51.100.23")
SEPARATOR = b"\0"
"""Where the planted secret goes."""


class Redaction:
    """The first byte chooses secret and reader: plain text, request or response. Streams are for `events`."""

    seeds = (
        b"\0Write to " + SEPARATOR + b" about Mr. Brown, DE89 3704 0044 0532 0130 00 and +1 (555) 010-9999.",
        b"\1" + b'{"messages": [{"role": "user", "content": "call 555-0199 or ann@example.org"}], "user": "ann"}',
        b"\2" + b'{"choices": [{"message": {"content": "eyJhbGciOi.eyJzdWIiOi.abc"}, "logprobs": {}}]}',
        b"\3-----BEGIN RSA PRIVATE KEY-----\nabc" + SEPARATOR + b"password: hunter22",
        b"\5" + b'{"content": "data:image/png;base64,' + b"A" * 600 + b'"}',
        b"\4" + b'{"input": [1, 2, 3], "metadata": {"user_id": "u"}}',
        b"\0" + b"eyJ-" * 1500,
        b"\0" + b"4111 " * 1200,
        b"\0" + b"Ann Bee " * 900,
        b"\0" + b"a.b@" * 1500,
    )  # fmt: skip
    tokens = (
        b"@", b".", b"-", b" ", b"+1", b"(0)", b"::", b"eyJ", b"sk-", b"-----BEGIN ", b"PRIVATE KEY-----", b"bearer ",
        b"password", b"secret: ", b"token=", b"DE89", b"4111 1111 1111 1111", b"127.0.0.1", b"Dr. ", b"O'Neil-",
        b'"content"', b'"user"', b"data: ", b"\n\n", b"{", b"}", b"[", b"]", b'"', b"\\u0000", b"\\ud83d", b"\xff",
        "é".encode(), "\u200b".encode(), b"0" * 400, b"[" * 1500, SEPARATOR,
    )  # fmt: skip

    def __init__(self) -> None:
        self._redactor = Redactor(get_args(Redacted))

    def check(self, data: bytes) -> None:
        check_in_time(self._check, data)

    def _check(self, data: bytes) -> None:
        choice, content = data[0] if data else 0, data[1:]
        if choice % 3 == 0:
            self._check_text(content, PLANTED[choice // 3 % len(PLANTED)])
        else:
            self._check_body(content, redacted_request if choice % 3 == 1 else redacted_response)

    def _check_text(self, content: bytes, secret: str) -> None:
        before, _, after = content.decode("utf-8", "replace").partition(SEPARATOR.decode())
        shown = self._redactor.redacted(f"{before} here {secret} there {after}", Counter())
        shown.encode()
        if shown.count(secret) > before.count(secret) + after.count(secret):
            raise Broken(f"{secret!r} is still in {shown!r}")

    def _check_body(self, content: bytes, redacted: Callable[[bytes, Redactor, Counter[str]], bytes]) -> None:
        for text in _strings(_json(redacted(content, self._redactor, Counter()))):
            text.encode()
            if self._redactor.redacted(text) != text and "@" in text:
                raise Broken(f"an address is still in {text!r}")

    def close(self) -> None:
        """Nothing runs."""


def _json(content: bytes) -> Any:
    if not content:
        return None
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as exc:
        raise Broken(f"no JSON any more: {content!r}") from exc


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, one in value.items():
                yield key
                yield from _strings(one)
        case list():
            for one in value:
                yield from _strings(one)
