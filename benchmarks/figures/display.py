"""Prints numbers, and what else an estimate says, for people."""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any


def number(value: float | None, places: int = 1) -> str:
    """Half-up (protocols 1.5), with a true minus sign; a dash when undefined."""
    if value is None:
        return "–"
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded + 0:,}".replace("-", "−")


def signed(value: float | None, places: int = 1) -> str:
    """Return the number as `number` does, with a plus sign, as the papers print differences; 0 has no sign."""
    text = number(value, places)
    return f"+{text}" if value is not None and text.strip("0.,−") and value > 0 else text


def between(lower: float | None, upper: float | None, places: int = 1) -> str:
    """Return the ends of an interval; empty without an interval."""
    return "" if lower is None or upper is None else f"{number(lower, places)} to {number(upper, places)}"


def with_ends(value: float | None, lower: float | None, upper: float | None, places: int = 1, without: str = "") -> str:
    """Return the number with its interval in brackets, or followed by `without`."""
    ends = between(lower, upper, places)
    return number(value, places) + (f" ({ends})" if ends else without)


def group_words(extra: Mapping[str, Any]) -> list[str]:
    """Return the groups that a spread over groups favours, and the test of a difference between them."""
    named = {"most_normal": "most normal", "preferred": "preferred"}
    lines = [f"{words}: {', '.join(extra[name])}" for name, words in named.items() if extra.get(name)]
    if (test := extra.get("test")) is not None:
        p_value = test["p_value"]
        lines.append(f"{test['name']}: {'no p value' if p_value is None else f'p = {number(p_value, 4)}'}")
    return lines
