"""The base of every section of a profile: a frozen struct that refuses unknown keys and can name its own faults."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

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
T = TypeVar("T")


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


def by_place(groups: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Return what a field `groups` gives each group of each axis, by its place in the section."""
    return {f"groups.{axis}.{group}": own for axis, below in groups.items() for group, own in below.items()}


class Parted(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section whose field `own` gives parts of the suite odds of their own: part -> field of the section -> value."""

    own: ClassVar[str]
    part: ClassVar[str]
    """The word for a part, e.g. "axis"."""
    valid: ClassVar[Iterable[str]]

    @property
    def overflow(self) -> str | None:
        """Return what is wrong with the odds of the section or of a part; None when all is well."""
        raise NotImplementedError  # each section sums its own fields

    def odds(self, part: str) -> Self:
        """Return the section with the odds of a part in place of its own."""
        return msgspec.structs.replace(self, **getattr(self, self.own).get(part, {}))

    def faults(self) -> Iterator[str]:
        parts = getattr(self, self.own)
        yield from unknown(self.part, parts, self.valid, self.own)
        names = [name for name in self.__struct_fields__ if name != self.own]
        for name, odds in parts.items():
            yield from unknown("field", odds, names, f"{self.own}.{name}")
        section_by_place = {"": self} | {f"{self.own}.{name}: ": self.odds(name) for name in parts}
        yield from (f"{place}{wrong}" for place, section in section_by_place.items() if (wrong := section.overflow))
