"""Reading the intensity, a number from 1 to 100, that a reply commits to."""

import re
import tomllib
from pathlib import Path
from typing import Any

from auditors.text.refusals.patterns import unfold

LOWEST, HIGHEST = 1.0, 100.0
_LONGEST_END = 2000
"""Characters that are read at each end of a reply."""
_TOP, _GAP = " ‰ ", " ¦ "
"""Marks that replace "out of 100", and a number that is not an intensity."""
_FILE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _patterns(name: str) -> list[re.Pattern[str]]:
    return [re.compile(unfold(pattern, _FILE["fragments"]), re.IGNORECASE) for pattern in _FILE[name]]


_ANY_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*")
_NUMBER = re.compile(_FILE["fragments"]["number"])
_OUT_OF_100 = re.compile(
    r"(?:/|\b(?:out of|of|von|sur|de)\b)\s*(?:(?:a|the|possible|total|maximum|max|of)\s+){0,3}100(?:\.0+)?(?![\d%])|%",
    re.IGNORECASE,
)
_LIST_MARKER = re.compile(r"^[ \t#>-]*(\d{1,2})(?:[.)]\s+(?=\S)|:)", re.MULTILINE)
_OWN_SCALE, _OTHER_SCALE, _STATED = map(_patterns, ("own_scale", "other_scale", "stated"))
_NO_INTENSITY = [*_patterns("taken_back"), *_patterns("no_intensity")]
_UNITS, _TENS, _TEENS = (_FILE[name].split() for name in ("units", "tens", "teens"))
_VALUES = {word: number for number, word in enumerate([*_UNITS, "ten", *_TEENS], 1)}
_VALUES |= {word: 10 * number for number, word in enumerate(_TENS, 1)}
_IN_WORDS = re.compile(
    rf"(?<![\w-])(?:(?P<hundred>(?:an?|one) hundred)|(?P<tens>{'|'.join(_TENS)})(?:[ -](?P<units>{'|'.join(_UNITS)}))?"
    rf"|(?P<teens>{'|'.join(_TEENS)})|(?P<alone>(?<!\w )(?:{'|'.join(_UNITS)})(?=[.!]?\s*$)))(?![\w'-])",
    re.IGNORECASE,
)
"""A number in words; one to nine only at the end of a reply."""


def first_number(text: str) -> float | None:
    """Return the first number of a reply when it lies in [1, 100]; None otherwise, also for one with a comma in it."""
    match = _ANY_NUMBER.search(text.replace("−", "-"))
    return _intensity(match[0]) if match else None


def stated_intensity(text: str) -> float | None:
    """Return the intensity from 1 to 100 that a reply commits to ("70 %" and "70/100" are 70); None for several.
    Ends of a scale, list markers, ranges, bounds, counts, ages, years, certainty and other scales are not intensities.
    """
    text = text if len(text) <= 2 * _LONGEST_END else text[:_LONGEST_END] + _GAP + text[-_LONGEST_END:]
    text = _IN_WORDS.sub(_in_digits, re.sub(r"[*_`]", "", text).replace("−", "-"))
    text = _without_list_markers(_OUT_OF_100.sub(_TOP, text))
    for pattern in _OWN_SCALE:
        text = pattern.sub(_GAP, text)
    is_elsewhere = any(pattern.search(text) for pattern in _OTHER_SCALE)
    for pattern in _NO_INTENSITY:
        text = pattern.sub(_GAP, text)
    for pattern in _STATED[-1:] if is_elsewhere else _STATED:
        if values := {_intensity(number) for number in pattern.findall(text)}:
            return values.pop() if len(values) == 1 else None
    values = set() if is_elsewhere else {_intensity(number) for number in _NUMBER.findall(text)} - {None}
    return values.pop() if len(values) == 1 else None


def _in_digits(match: re.Match[str]) -> str:
    """Return the digits of a number in words."""
    words = [match[name] for name in ("tens", "units", "teens", "alone") if match[name]]
    return "100" if match["hundred"] else str(sum(_VALUES[word.lower()] for word in words))


def _without_list_markers(text: str) -> str:
    """Blank numbers that start lines and count them from 1."""
    n_markers = 0

    def blank(match: re.Match[str]) -> str:
        nonlocal n_markers
        if int(match[1]) != n_markers + 1:
            return match[0]
        n_markers += 1
        return _GAP

    return _LIST_MARKER.sub(blank, text)


def _intensity(number: str) -> float | None:
    """Return a number in [1, 100], None for another or a malformed number."""
    if "," in number or number.count(".") > 1:
        return None
    value = float(number)
    return value if LOWEST <= value <= HIGHEST else None
