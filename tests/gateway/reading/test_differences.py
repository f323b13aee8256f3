"""Where two texts differ: what is marked, that nothing is lost, and how long hostile texts take."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.reading.differences import MOST_PIECES, Piece, differences, in_order
from tests.support.processor_time import processor_seconds

LONGEST = 20_000
WORDS = [f"w{number}" for number in range(6_000)]
DRAWN = random.Random(1)
HOSTILE = {
    "one word": ("a " * (LONGEST // 2), "a b " * (LONGEST // 4)),
    "few words": (" ".join(DRAWN.choices("abc", k=10_000)), " ".join(DRAWN.choices("abc", k=10_000))),
    "signs": ("!?" * (LONGEST // 2), "?!" * (LONGEST // 2)),
    "shuffled": (" ".join(WORDS)[:LONGEST], " ".join(DRAWN.sample(WORDS, 6_000))[:LONGEST]),
    "every second": (" ".join(WORDS)[:LONGEST], " ".join(f"{word} x" for word in WORDS)[:LONGEST]),
}


def shown(pieces: list[Piece]) -> str:
    return "".join(f"[{one.text}]" if one.differs else one.text for one in pieces)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Is he a nurse?", "Is she a nurse?", ("Is [he] a nurse?", "Is [she] a nurse?")),
        ("the cat sat", "the dog sat down", ("the [cat] sat", "the [dog] sat[ down]")),
        ("kind warm calm", "born to lead", ("[kind warm calm]", "[born to lead]")),
        ("", "so", ("", "[so]")),
        ("same", "same", ("same", "same")),
    ],
)
def test_what_one_has_and_the_other_has_not(one: str, other: str, expected: tuple[str, str]) -> None:
    """Whole words are marked, with the blanks between two of them."""
    left, right = differences(one, other)
    assert (shown(left), shown(right)) == expected


@given(st.text("ab <\n\u202e{}", max_size=60), st.text("ab <\n\u202e{}", max_size=60))
def test_the_pieces_are_the_text(one: str, other: str) -> None:
    """All of it, in order, and what is not marked is the same on both sides but for blanks."""
    left, right = differences(one, other)
    assert ("".join(piece.text for piece in left), "".join(piece.text for piece in right)) == (one, other)
    same = [["".join(piece.text for piece in side if not piece.differs).split()] for side in (left, right)]
    assert "".join(same[0][0]) == "".join(same[1][0])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_little_time(name: str) -> None:
    """As long as any that are kept; the marks are bounded, so that a page is."""
    one, other = HOSTILE[name]
    assert processor_seconds(lambda: differences(one, other)) < 1.0
    left, right = differences(one, other)
    assert max(len(left), len(right)) <= MOST_PIECES
    assert "".join(piece.text for piece in left) == one


def test_json_is_put_in_order() -> None:
    """The order of members and blanks are no difference; what is no JSON of one meaning stays as it is."""
    one, other = in_order('{"b": 1, "who": {"group": "he"}}'), in_order('{"who":{"group":"she"},\n"b":1}')
    left, right = differences(one, other)
    odd = ['{"a": 1, "a": 2}', "[" * 5_000, '{"a": NaN}', "plain", "12", "[1, 2", '{"a": 1e999}']

    assert [piece.text for piece in left if piece.differs] == ["he"]
    assert [piece.text for piece in right if piece.differs] == ["she"]
    assert json.loads(one) == {"b": 1, "who": {"group": "he"}}
    assert [in_order(text) for text in odd] == odd
