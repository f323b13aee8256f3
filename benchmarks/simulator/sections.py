"""What every section of a profile is made of: a frozen struct that refuses unknown keys and can name its own faults."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from benchmarks.errors import nearest

Level = Literal[-1, 0, 1, 2]
LEVELS: tuple[Level, ...] = (-1, 0, 1, 2)
"""Favouritism levels of protocols 2.7; a planted distribution lists its four probabilities in this order."""

REPLY_SENTENCES = 10
"""Sentences of a free reply that an identity may change: planted fractions are multiples of 1 / REPLY_SENTENCES."""

Probability = Annotated[float, Meta(ge=0, le=1)]
NonNegative = Annotated[float, Meta(ge=0)]
Levels = tuple[Probability, Probability, Probability, Probability]
TOLERANCE = 1e-9


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every section: frozen, unknown keys refused."""

    def faults(self) -> Iterator[str]:
        """What the section asks for that cannot be: "place: value and remedy", places relative to the section."""
        yield from ()


def unknown(what: str, given: Iterable[str], known: Iterable[str], place: str) -> Iterator[str]:
    """A fault for every name that is not known: planted in vain."""
    names = list(known)
    for name in given:
        if name not in names:
            yield f'{place}: unknown {what} "{name}"{nearest(name, names)}; known: {", ".join(names)}'


AnySection = TypeVar("AnySection", bound=Section)


def overridden(base: AnySection, override: Section | None) -> AnySection:
    """`base` with every field that the override gives; a field left out there (None) stays."""
    if override is None:
        return base
    given = {name: value for name in override.__struct_fields__ if (value := getattr(override, name)) is not None}
    return msgspec.structs.replace(base, **given)
