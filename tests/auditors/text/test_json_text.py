"""JSON texts with other strings in their places: everything else stays to the letter."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditors.text.swaps.leaves import DEEPEST, is_deeper, read_json_text
from tests.support.presence import present
from tests.support.processor_time import grows_in_proportion


def swapped(text: str) -> str | None:
    """The text with each string in capitals."""
    found = read_json_text(text)
    return None if found is None else found.with_strings(one.text.upper() for one in found.leaves)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "b", "c":1.10,\n "d" : ["e", null]}', '{"a": "B", "c":1.10,\n "d" : ["E", null]}'),
        ('{"a":"caf\\u00e9","b":"caf\\u00e9"}', '{"a":"CAF\\u00c9","b":"CAF\\u00c9"}'),
        ('{"a":"café"}', '{"a":"CAFÉ"}'),
        ('["A\\/B", "\\ud83d\\ude00", "say \\"x\\""]', '["A\\/B", "\\ud83d\\ude00", "SAY \\"X\\""]'),
        ('["x \\ud83d"]', '["X \\ud83d"]'),
        (' "a" ', ' "A" '),
        ("[]", "[]"),
        ("17", "17"),
        ('{"a: b": ": c", "d\\"": "e"}', '{"a: b": ": C", "d\\"": "E"}'),
    ],
)
def test_strings_that_are_values_alone_change(text: str, expected: str) -> None:
    """Names of members, numbers, blanks, order and strings that stay are as they were written, escapes too."""
    assert swapped(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "My sister.", '{"a": "b"', '{"a": 1, "a": 2}', "{'a': 1}", "[" * 100_000, '{"a":' * 41 + "1" + "}" * 41],
)
def test_what_is_no_json_or_too_deep(text: str) -> None:
    """A text that has no one meaning as JSON is none; a member that occurs twice has none."""
    assert read_json_text(text) is None


def test_the_deepest() -> None:
    """Brackets inside of strings are no depth."""
    assert read_json_text("[" * DEEPEST + "]" * DEEPEST) is not None
    assert not is_deeper('["' + "[" * 500 + '"]', 1)
    assert is_deeper("[" * 41, 40)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=30)
@given(VALUES, st.booleans())
def test_any_value(value: object, is_ascii: bool) -> None:
    """With its own strings in their places it is the same text; with others it is JSON of the same shape."""
    text = json.dumps(value, ensure_ascii=is_ascii)
    found = present(read_json_text(text))
    assert found.with_strings(one.text for one in found.leaves) == text

    changed = present(read_json_text(found.with_strings(one.text + "'\"\\é" for one in found.leaves)))
    assert [one.text for one in changed.leaves] == [one.text + "'\"\\é" for one in found.leaves]
    assert changed.names == found.names


@pytest.mark.parametrize("unit", ['{"a": "b"}, ', '\\"', "["])
def test_it_takes_time_in_proportion(unit: str) -> None:
    """No text, JSON or not, takes more than time in proportion to it."""

    def both(text: str) -> None:
        for one in (text, f"[{text}null]", f'["{text}"]'):
            if found := read_json_text(one):
                found.with_strings(leaf.text + "x" for leaf in found.leaves)

    assert grows_in_proportion(both, unit, 20_000)
