"""One call that several spans tell of: a framework's, and below it that of the client which the framework uses."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.features.ingest.received import Part

MOST_LEVELS = 32
"""Spans around another one that are looked at: many spans below one long chain would each go through all of it."""


def one_a_call(told: Mapping[str, Part], around: Mapping[str, str]) -> list[Part]:
    """The parts but those of spans right around another one that tells the same answer: as two they would count twice.

    What is kept has the tag, the sampling rate and the opt-out of what is left out, where it says none itself.

    Args:
        told: parts by their ids.
        around: by the id of a part, that of the span its span is in.
    """
    repeated = {
        outer
        for inner, outer in around.items()
        if inner != outer and outer in told and _is_same_call(told[inner], told[outer])
    }
    kept = (part for key, part in told.items() if key not in repeated)
    return [_marked(part, _above(part.id, told, around, repeated)) for part in kept]


def _is_same_call(inner: Part, outer: Part) -> bool:
    if not inner.is_whole or len(inner.answered) != len(outer.answered):
        return False
    return all(_words(one) == _words(other) for one, other in zip(inner.answered, outer.answered, strict=True))


def _words(choice: dict[str, Any]) -> tuple[Any, list[str]]:
    """Of an answer. Arguments are left out: they are JSON, which each writes in its way."""
    message = choice["message"]
    return message["content"] or "", [one["function"]["name"] for one in message.get("tool_calls", [])]


def _above(key: str, told: Mapping[str, Part], around: Mapping[str, str], repeated: set[str]) -> Iterator[Part]:
    seen = {key}
    while (key := around.get(key, "")) in repeated and key not in seen and len(seen) <= MOST_LEVELS:
        seen.add(key)
        yield told[key]


def _marked(part: Part, above: Iterator[Part]) -> Part:
    for one in above:
        part = msgspec.structs.replace(
            part,
            opt=part.opt or one.opt,
            tag=part.tag or one.tag,
            sender_rate=one.sender_rate if part.sender_rate is None else part.sender_rate,
        )
    return part
