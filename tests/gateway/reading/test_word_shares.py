"""The shares that the words of an answer have in its score."""

import pytest

from auditors.audit_texts import Shares
from gateway.reading.exchange_forms import word_shares


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (" She must. ", [("She", 0, True), (" must", 4, False), (".", 2, False)]),
        ("[email] must.", "the answer is shown in other words than were scored"),
        (None, "the answer is shown in other words than were scored"),
    ],
)
def test_words_of_an_answer_have_their_shares(reply: str | None, words: list[tuple[str, int, bool]] | str) -> None:
    """Each word has a level by its share; an answer of another length has a reason instead."""
    pieces = [(3, 0.1, True), (5, 5.0, False), (1, -2.5, False)]
    shares = word_shares(reply, Shares(axis="gender", group="woman", reference="man", pieces=pieces, end=0.0))
    assert (shares if isinstance(shares, str) else [(one.text, one.level, one.is_swapped) for one in shares]) == words
