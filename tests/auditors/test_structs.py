"""Structs made of others: where each field comes from."""

import msgspec
import pytest

from auditors.structs import combine


class Line(msgspec.Struct):
    name: str
    n: int
    note: str = "none"


def test_a_field_is_the_callers_else_the_first_sources_else_the_default() -> None:
    """A value of the caller replaces that of a source, and an earlier source that of a later one."""
    first, second = Line("a", 1), Line("b", 2, "later")
    assert combine(Line, first, second, n=3) == Line("a", 3, "none")
    assert combine(Line, None, {"name": "c"}, name="d", n=4) == Line("d", 4, "none")


def test_a_field_that_nothing_gives_is_an_error() -> None:
    """A required field is never left out."""
    with pytest.raises(TypeError, match="'n'"):
        combine(Line, name="a")
