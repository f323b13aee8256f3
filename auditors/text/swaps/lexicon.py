"""The lexicon of swaps: rows (slots) of words that mean the same of different groups of an axis. A word is exchanged
for the form of its slot in another group, so that a swap can be undone. A row's kind says which surroundings it needs.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, cast

from auditors.late_patterns import compile_late
from auditors.text.names import NAMES
from auditors.text.plain import plain_text
from auditors.text.swaps.outcome import NotSwapped
from auditors.text.swaps.words import WORDS, by_axis

Kind = Literal["noun", "nouns", "adjective", "pronoun", "title", "name", "phrase", "sign"]
"""Kind of a word: noun (one person), nouns, adjective (next to a person), pronoun, title, name, phrase, or sign."""


class Slot(NamedTuple):
    kind: Kind
    forms: Mapping[str, str]
    """Group to its form, in the spelling of the middle of a sentence."""
    is_generic: bool = False
    """True if it may name the same person as another word of the text: "my sister is a woman who ..."."""
    spellings: Mapping[str, str] = {}
    """Further spellings to their group; they are read and never written."""


class Form(NamedTuple):
    """One word or phrase of the lexicon: where it stands in it."""

    text: str
    group: str
    slot: Slot


_FILE: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))

SWAPPED: dict[str, tuple[str, ...]] = {axis: tuple(table["groups"].split()) for axis, table in _FILE.items()}
"""Axis to the groups that its slots have forms for; all groups of `auditors.text.identity` but "questioning people"."""


def _read_slots(axis: str) -> Iterator[Slot]:
    for line in _FILE[axis]["slots"].strip().splitlines():
        if line == "names":
            yield from _given_names(axis)
            continue
        kind, _, rows = line.partition(":")
        for row in rows.split(";"):
            forms = zip(SWAPPED[axis], (form.strip().split("/") for form in row.split(",")), strict=True)
            present = {group: spellings for group, spellings in forms if spellings != ["-"]}
            yield Slot(
                cast("Kind", kind.rstrip("*")),
                {group: spelling for group, (spelling, *_) in present.items()},
                is_generic=kind.endswith("*"),
                spellings={spelling: group for group, (_, *others) in present.items() for spelling in others},
            )


def _given_names(axis: str) -> Iterator[Slot]:
    """One slot for each place: by gender within a race, by race within a gender."""
    for fixed in SWAPPED["race" if axis == "gender" else "gender"]:
        cells = [(group, (fixed, group) if axis == "gender" else (group, fixed)) for group in SWAPPED[axis]]
        for place in range(20):
            yield Slot("name", {group: NAMES[cell][place] for group, cell in cells})


SLOTS: dict[str, tuple[Slot, ...]] = {axis: tuple(_read_slots(axis)) for axis in _FILE}
"""Axis to its slots. Earlier slots win where a word stands in two of them and the surroundings do not tell."""


def _table(slots: tuple[Slot, ...]) -> dict[str, tuple[Form, ...]]:
    by_text: dict[str, list[Form]] = {}
    for slot in slots:
        for text, group in [*((text, group) for group, text in slot.forms.items()), *slot.spellings.items()]:
            by_text.setdefault(plain_text(text).text.lower(), []).append(Form(text, group, slot))
    return {text: tuple(forms) for text, forms in by_text.items()}


FORMS: dict[str, dict[str, tuple[Form, ...]]] = {axis: _table(slots) for axis, slots in SLOTS.items()}
"""Axis to form, in small letters and plain, to the places it has in the lexicon."""

LETTERS = Slot("sign", {"man": "M", "woman": "F"}, is_generic=True)
"""Letters that state a gender where the surroundings say so: "(35M)", "Sex: F"."""

UNPAIRED = by_axis("unpaired")
"""Words of an axis that have no counterpart here: a text that holds one is left alone."""

SIGNS_ALONE = WORDS["signs_alone"]
"""Emoji that show a gender and have no counterpart."""


def pattern(axis: str) -> re.Pattern[str]:
    """Finds every form of an axis as a whole word or phrase, in any case, the longest first."""
    words = [form for form in FORMS[axis] if form[0].isalnum()]
    signs = "".join(FORMS[axis].keys() - set(words))
    return compile_late(_whole(words) + (f"|[{signs}]" if signs else ""), re.IGNORECASE)


def _whole(texts: Iterable[str]) -> str:
    return rf"(?<!\w){_any_of(texts)}(?!\w)"


def _any_of(texts: Iterable[str]) -> str:
    """A regular expression for these texts that shares their beginnings: hundreds of plain alternatives are slow."""
    tails: dict[str, list[str]] = {}
    for text in texts:
        tails.setdefault(text[:1], []).append(text[1:])
    branches = [re.escape(first) + _any_of(rest) for first, rest in sorted(tails.items()) if first]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)})" + ("?" if "" in tails else "")


PATTERNS: dict[str, re.Pattern[str]] = {axis: pattern(axis) for axis in SLOTS}

BOUND = {axis: compile_late("(?<!normal (?=weight))" + _whole(phrases)) for axis, phrases in by_axis("bound").items()}
"""Words that tie a text to one group of the axis: the same text about another group would be a strange one."""

IDIOMS = {axis: compile_late(rf"(?<!\w){_any_of(phrases)}s?(?!\w)") for axis, phrases in by_axis("idioms").items()}
"""Phrases in which a word of the axis does not name a person; of words and blanks only, like the text they are for."""


R = TypeVar("R", bound=NotSwapped)


class AxisOrder(NamedTuple):
    """Order in which axes are tried, until a swap is possible."""

    axes: Sequence[str]
    choice: int
    """Number that chooses the group to swap for: see `swap`."""


def axis_order(exchange_id: str) -> AxisOrder:
    """Every axis is the first one of as many exchanges."""
    number = int.from_bytes(hashlib.blake2b(exchange_id.encode(), digest_size=8).digest())
    axes = list(SLOTS)
    first = number % len(axes)
    return AxisOrder([*axes[first:], *axes[:first]], number // len(axes))


def plainest(reasons: Sequence[R]) -> R:
    """Return the first axis's reason about a group that the texts name, else the plainest of the others."""
    return min(reasons, key=lambda reason: (reason.reason == "no identity term", reason.group is None))
