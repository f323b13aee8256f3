"""The parts of a figure on a report: pictures with their titles, readings and legend."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, TypeVar

import msgspec

from auditors.structs import combine
from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.figures.panels import Point

P = TypeVar("P", bound=Point)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The stored estimates of a run, under the name that its legend shows."""

    name: str
    estimates: Sequence[Estimate]


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    reading: str = ""
    svg: str
    """Complete and escaped; goes into the page as it is."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Pictures that stand side by side, and more of them behind a line to open."""

    pictures: tuple[Picture, ...]
    summary: str = ""
    more: tuple[Picture, ...] = ()


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a legend. The words are page text, so that a long name wraps."""

    svg: str
    words: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    reading: str = ""
    """One line: how to read every picture of it."""
    keys: tuple[Key, ...] = ()
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    """Notes on undefined numbers, with the reason, and on numbers that the reader must not compare."""

    @property
    def pictures(self) -> list[Picture]:
        return [picture for part in self.parts for picture in (*part.pictures, *part.more)]


def alone(svg: str, title: str = "", reading: str = "") -> tuple[Part]:
    """Return the parts of a figure that is a single picture."""
    return (Part(pictures=(Picture(title=title, reading=reading, svg=svg),)),)


def drawn_as(kind: type[P], estimate: Estimate | None, **own: Any) -> P:
    """Return an estimate as a point of a figure, in its own words unless `own` has others."""
    own.setdefault("words", format_estimate(estimate))
    return kind(value=None, **own) if estimate is None else combine(kind, estimate, **own)


def format_estimate(estimate: Estimate | None, places: int = 2) -> str:
    """An estimate in words, for pointing at it: value, interval, n and refusals, or why there is none."""
    if estimate is None:
        return "undefined: not among the stored estimates"
    if estimate.value is None or not isfinite(estimate.value):
        return f"undefined: {estimate.reason or 'no reason stored'} (n = {estimate.n:,})"
    refusals = estimate.extra.get("refusals", 0)
    parts = [number(estimate.value, places), interval_words(estimate, places), f"n = {estimate.n:,}"]
    return ", ".join([*parts, f"{refusals:,} refusals"] if refusals else parts)


def interval_words(estimate: Estimate, places: int = 2) -> str:
    """The interval, or the reason why there is none."""
    if estimate.lower is None or estimate.upper is None:
        return estimate.reason or "no interval"
    level = number(100 * estimate.confidence_level, 0)
    return f"{level} % interval {number(estimate.lower, places)} to {number(estimate.upper, places)}"
