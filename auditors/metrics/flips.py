"""How often decisions change: differences of values, of the fields of two answers, and their excess over chance."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

Value = str | int | float | bool | None | tuple[()] | frozenset[str]
"""A value without parts: a string, number, truth value or null; () is an empty array, frozenset() an empty object."""

Fields = Mapping[tuple[str | int, ...], Value]
"""The values of one answer, by their path: names of members and places in arrays."""

DRAWS: Final = 2


def value_difference(first: Value, second: Value) -> float:
    """Difference of two values: 0 where they are equal, 1 where they are not, in between for numbers.

    Args:
        first: a value without parts, of finite numbers.
        second: another one.

    Returns: dimensionless, in [0, 1]; symmetric. Two numbers: |a - b| / max(|a|, |b|), at most 1, so that 90 against
        100 is 0.1 and numbers of opposite signs are 1; 1 and 1.0 are equal. Values of different kinds: 1.
    """
    if isinstance(first, bool) or isinstance(second, bool) or not _are_numbers(first, second):
        return 0.0 if type(first) is type(second) and first == second else 1.0
    one, other = cast("int | float", first), cast("int | float", second)
    return 0.0 if one == other else min(1.0, float(abs(one - other) / max(abs(one), abs(other))))


def fields_difference(first: Fields, second: Fields) -> float:
    """Mean difference over all fields that either answer has.

    Args:
        first: path to value of one answer.
        second: the same of another.

    Returns: dimensionless, in [0, 1]; symmetric; a field that one of them lacks differs by 1; 0 when neither has any.
    """
    paths = first.keys() | second.keys()
    if not paths:
        return 0.0
    both = first.keys() & second.keys()
    return (len(paths) - len(both) + sum(value_difference(first[path], second[path]) for path in both)) / len(paths)


def excess(across: Sequence[float], within: Sequence[float]) -> float:
    """Mean difference across two sides, less the mean difference within them.

    Args:
        across: the four differences between an answer of one side and an answer of the other.
        within: the difference between the two answers of each side.

    Returns: in the differences' own unit, in [-1, 1] for differences in [0, 1]. Where the four answers are drawn
        independently and both sides alike, each difference has the same expectation, so that of the excess is 0, for
        any symmetric difference; and so it is among answers chosen by a condition that does not tell the four apart. A
        single value may be negative and must not be clipped.
    Raises: ValueError for other numbers of differences.
    Source: energy distance (Szekely & Rizzo 2013, doi:10.1016/j.jspi.2013.03.018) with two draws a side. Deviation:
        differences of JSON are no Euclidean ones, so the expectation of two unlike sides may in principle be below 0.
    """
    if (len(across), len(within)) != (DRAWS * DRAWS, DRAWS):
        raise ValueError(f"four differences across and two within are needed, not {len(across)} and {len(within)}")
    return sum(across) / len(across) - sum(within) / len(within)


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(value, int | float) for value in values)
