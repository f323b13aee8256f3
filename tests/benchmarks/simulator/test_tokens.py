"""The tokenizer: lossless, with ids that do not depend on history."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.replies import EOS, EOS_ID, Vocabulary


@given(st.text())
def test_a_text_comes_back_from_its_ids(text: str) -> None:
    """decode(encode(text)) is the text, whatever characters it has."""
    vocabulary = Vocabulary()
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_the_end_of_a_reply_has_an_id_that_no_text_has() -> None:
    """A user who writes the marker gets pieces, not the marker."""
    vocabulary = Vocabulary()
    assert vocabulary.id(EOS) == EOS_ID
    assert EOS_ID not in vocabulary.encode(EOS)
