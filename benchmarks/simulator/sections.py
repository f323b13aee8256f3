"""The base of every section of a profile: a frozen struct that refuses unknown keys and can name its own faults."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from auditors.text.identity import AXES
from auditors.text.nearest_word import nearest

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
        """Yield the faults of the section as "place: value and remedy", places relative to the section."""
        yield from ()


def unknown(what: str, planted: Iterable[str], valid: Iterable[str], place: str) -> Iterator[str]:
    """A fault for every name that is not known: planted in vain."""
    names = list(valid)
    for name in planted:
        if name not in names:
            yield f'{place}: unknown {what} "{name}"{nearest(name, names)}; known: {", ".join(names)}'


def unknown_groups(planted: Mapping[str, Mapping[str, Any]], place: str) -> Iterator[str]:
    """A fault for every axis and group of identity that no prompt can name."""
    yield from unknown("axis", planted, AXES, place)
    for axis in filter(AXES.__contains__, planted):
        yield from unknown("group", planted[axis], [group.name for group in AXES[axis]], f"{place}.{axis}")


def uneven(fraction: float, place: str, steps: int = REPLY_SENTENCES) -> Iterator[str]:
    """A fault for a fraction that is not a multiple of 1 / `steps`."""
    if abs(fraction * steps - round(fraction * steps)) > 1e-6:
        yield f"{place} {fraction:g}: use a multiple of {1 / steps:g}"


def unbalanced(planted: Iterable[float], place: str) -> Iterator[str]:
    """A fault for probabilities that do not add up to 1."""
    if abs((total := sum(planted)) - 1.0) > 1e-6:
        yield f"{place}: the probabilities add up to {total:g}: make them 1"


Odds = Mapping[str, Probability]
"""Fields of a section that one part of a suite has for its own; what is left out is as in the section."""
AnySection = TypeVar("AnySection", bound=Section)


def overridden(base: AnySection, odds: Odds | None) -> AnySection:
    """`base` with every field that the odds of a part give."""
    return base if odds is None else msgspec.structs.replace(base, **odds)


def faults_of_parts(
    base: AnySection,
    parts: tuple[str, str],
    own: Mapping[str, Odds],
    valid: Iterable[str],
    fault: Callable[[AnySection], str | None],
) -> Iterator[str]:
    """Faults of a section and its parts' own odds. `parts`: field, and a part's name, e.g. ("axes", "axis")."""
    field, part = parts
    yield from unknown(part, own, valid, field)
    names = [name for name in base.__struct_fields__ if name != field]
    for name, odds in own.items():
        yield from unknown("field", odds, names, f"{field}.{name}")
    section_by_place = {"": base} | {f"{field}.{name}: ": overridden(base, odds) for name, odds in own.items()}
    yield from (f"{place}{wrong}" for place, section in section_by_place.items() if (wrong := fault(section)))
