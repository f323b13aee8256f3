"""Reading JSON into fields: paths and values, and every bound."""

import pytest

from auditors.text.json_fields import DEEPEST, LONGEST_CHARS, MOST_FIELDS, FieldsError, read_fields
from tests.support.processor_time import processor_seconds


def read(text: str) -> dict[tuple[str | int, ...], object]:
    return dict(read_fields(text, str.lower))


def test_values_by_path() -> None:
    """Objects by the names of their members, arrays by place; names and strings are made plain first."""
    text = '{"A": {"b": [1, 2.5, "X"]}, "t": true, "n": null, "o": {}, "l": [], "m": [[]]}'
    assert read(text) == {
        ("a", "b", 0): 1, ("a", "b", 1): 2.5, ("a", "b", 2): "x", ("t",): True, ("n",): None,
        ("o",): frozenset(), ("l",): (), ("m", 0): (),
    }  # fmt: skip
    assert read(" 5 ") == {(): 5}
    assert read("{}") == {(): frozenset()}


def test_names_made_the_same_are_told_apart() -> None:
    """No field is lost where two names become one."""
    assert read('{"A": 1, "a": 2}') == {("a",): 1, ("a\0" + "2",): 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("Dear team", "no JSON"),
        ('{"a": 1', "no JSON"),
        ('{"a": 1} and more', "no JSON"),
        ("```json\n{}\n```", "no JSON"),
        ('{"a": 1, "a": 2}', "a member occurs twice"),
        ('{"b": [{"a": 1, "a": 1}]}', "a member occurs twice"),
        ("NaN", "NaN or Infinity in place of a number"),
        ("[Infinity]", "NaN or Infinity in place of a number"),
        ("-Infinity", "NaN or Infinity in place of a number"),
        ("1e999", "a number out of range"),
        ("9" * 301, "a number out of range"),
        ("9" * 5000, "a number out of range"),
        ('"' + "a" * LONGEST_CHARS + '"', f"more than {LONGEST_CHARS} characters"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), f"more than {DEEPEST} levels"),
        ("[" * 49_000 + "]" * 49_000, f"more than {DEEPEST} levels"),
        ('{"a":' * 15_000 + "1" + "}" * 15_000, f"more than {DEEPEST} levels"),
        ("[" + "0," * MOST_FIELDS + "0]", f"more than {MOST_FIELDS} fields"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_beyond_the_bounds(text: str, reason: str) -> None:
    """Each has its phrase, and takes next to no time."""

    def refused() -> None:
        with pytest.raises(FieldsError) as refusal:
            read(text)
        assert str(refusal.value) == reason

    assert processor_seconds(refused) < 2


def test_what_is_just_within() -> None:
    """The bounds themselves can be read."""
    assert len(read("[" + ",".join("0" * MOST_FIELDS) + "]")) == MOST_FIELDS
    assert read("[" * DEEPEST + "1" + "]" * DEEPEST) == {(0,) * DEEPEST: 1}
    assert read("9" * 300) == {(): int("9" * 300)}
