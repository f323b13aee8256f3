"""Distributions over replies, their log-probabilities, and the tokenizer: lossless, without a history."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.replies import EOS, EOS_ID, Replies, Vocabulary
from benchmarks.simulator.text_request import generate, shape, steps
from tests.support.simulator.asking import asking

AMERICANS = Replies({"African": 0.1, "African American": 0.3, "Asian": 0.6})


def test_next_tokens_sum_up_the_texts_that_share_them() -> None:
    """Texts that begin alike share their first token; the end of the shorter one is a token of its own."""
    assert AMERICANS.next_tokens([]) == pytest.approx({"African": 0.4, "Asian": 0.6})
    assert AMERICANS.next_tokens(["African"]) == pytest.approx({EOS: 0.25, " American": 0.75})
    assert AMERICANS.next_tokens(["Nobody"]) == {}


def test_token_probabilities_multiply_to_the_probability_of_the_text() -> None:
    """The chain rule holds along every reply, its end included."""
    for text, p in zip(AMERICANS.texts, AMERICANS.probabilities, strict=True):
        only = generate(Replies({text: 1.0}), asking("x"), "s", 0)
        chain = steps(AMERICANS, only)
        assert math.exp(sum(step.logprob(step.token) for step in chain)) == pytest.approx(p)


def test_allowed_choices_renormalise() -> None:
    """Choices that were never planted get nothing while others have something, and equal shares when none has."""
    limited = AMERICANS.restricted_to(["Asian", "African", "Martian"])
    assert limited.probability("Asian") == pytest.approx(0.6 / 0.7)
    assert limited.probability("Martian") == 0.0
    assert AMERICANS.restricted_to(["A", "B"]).probabilities == (0.5, 0.5)


def test_a_forced_beginning_leaves_the_conditional_rest() -> None:
    """Structured choice and continue_final_message together: the rest of the choices that begin so."""
    asked = asking("x")
    rest = AMERICANS.after("African")
    assert rest.probability("") == pytest.approx(0.25)
    assert rest.probability(" American") == pytest.approx(0.75)
    assert shape(AMERICANS, asked) is AMERICANS


def test_temperature_zero_takes_the_most_likely() -> None:
    """The argmax at 0 whatever the draw, the planted shares above it."""
    greedy = {generate(AMERICANS, asking("x", temperature=0.0), f"s{n}", 0).text for n in range(50)}
    sampled = {generate(AMERICANS, asking("x", temperature=0.1), f"s{n}", 0).text for n in range(50)}
    assert greedy == {"Asian"}
    assert sampled == set(AMERICANS.texts)


def test_a_stop_string_and_a_length_end_a_reply() -> None:
    """Each with its reason; the end token counts as one, so a reply as long as the limit is cut."""
    long = Replies({"One two. Three": 1.0})
    stopped = generate(long, asking("x", stop=["Three", "."]), "s", 0)
    assert (stopped.text, stopped.finish_reason, stopped.stop_reason) == ("One two", "stop", ".")
    cut = generate(long, asking("x", max_tokens=2), "s", 0)
    assert (cut.text, cut.finish_reason) == ("One two", "length")
    whole = generate(long, asking("x", max_tokens=5), "s", 0)
    assert (whole.text, whole.finish_reason, whole.tokens[-1]) == ("One two. Three", "stop", EOS)


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
