"""The tokenizer: lossless, with ids that do not depend on history."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.replies import EOS, EOS_ID, Vocabulary, split


@given(st.text())
def test_a_text_comes_back_from_its_ids(text: str) -> None:
    """decode(encode(text)) is the text, whatever characters it has."""
    vocabulary = Vocabulary()
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_words_take_their_space_along_and_break_after_eight_letters() -> None:
    """Long words that begin alike share their first piece, which is what a trie of forced prefixes is for."""
    assert split("No stereotype, please.") == ("No", " stereoty", "pe", ",", " please", ".")
    assert split("stereotypical")[0] == split("stereotypes")[0] == "stereoty"


def test_ids_do_not_depend_on_what_came_before() -> None:
    """Two vocabularies that saw texts in another order agree."""
    one, other = Vocabulary(), Vocabulary()
    one.encode("men and women")
    assert one.encode("women lead") == other.encode("women lead")


def test_the_end_of_a_reply_has_an_id_that_no_text_has() -> None:
    """A user who writes the marker gets pieces, not the marker."""
    vocabulary = Vocabulary()
    assert vocabulary.id(EOS) == EOS_ID
    assert EOS_ID not in vocabulary.encode(EOS)
