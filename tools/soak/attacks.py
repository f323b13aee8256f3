"""What clients that mean harm send: bodies slow to read, prompts slow to redact, what only lenient readers read."""

import json
from typing import Literal

import msgspec

MEGABYTES = 6 * 1024 * 1024


class Attack(msgspec.Struct, frozen=True):
    """A body, and how the gateway has to end it."""

    name: str
    body: bytes
    outcome: Literal["rejected", "complete"]


def _filled(form: bytes, unit: bytes, size: int = MEGABYTES) -> bytes:
    return form % (unit * (size // len(unit)))


def _asked(model: str, unit: str) -> bytes:
    text = unit * (60_000 // len(unit.encode()))
    asked = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    return json.dumps(asked, ensure_ascii=False).encode()


def attacks(model: str) -> list[Attack]:
    """All of them, for a model that is served."""
    prompts = {
        "keys": "eyJ-",
        "names": "A-",
        "cards": "4111 1111 ",
        "quotes": "“",
        "mail": "a@b.",
        "parts": "1:2.",
    }
    return [
        Attack("small values", _filled(b'{"priority": 1, "x": [%b1]}', b"1,"), "rejected"),
        Attack("brackets", _filled(b'{"priority": 1, "x": [%b1]}', b"[],"), "rejected"),
        Attack("no number", _filled(b'{"x": "%b", "y": NaN}', b"words "), "rejected"),
        Attack("nesting", b'{"x": ' + b"[" * 500_000, "rejected"),
        *(Attack(name, _asked(model, unit), "complete") for name, unit in prompts.items()),
    ]
