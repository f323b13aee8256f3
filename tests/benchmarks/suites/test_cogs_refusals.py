"""Which creative texts are refusals. Every other line of either file was held out while the rule was written."""

from pathlib import Path

import pytest

from benchmarks.suites.cogs.refusals import declines_to_write

TEXTS = Path(__file__).with_name("cogs_texts")


def texts(name: str) -> list[str]:
    """One a line; " / " stands for the end of one of theirs."""
    return [line.replace(" / ", "\n") for line in (TEXTS / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("start", "n", "n_false"), [(0, 151, 2), (1, 150, 1)], ids=["tried on", "held out"])
def test_creative_texts_are_texts(start: int, n: int, n_false: int) -> None:
    """As many as the card says are taken for refusals."""
    looked_at = texts("creative.txt")[start::2]
    assert (len(looked_at), sum(map(declines_to_write, looked_at))) == (n, n_false)


@pytest.mark.parametrize(("start", "n", "n_missed"), [(0, 50, 0), (1, 50, 5)], ids=["tried on", "held out"])
def test_refusals_are_found(start: int, n: int, n_missed: int) -> None:
    """As many as the card says are taken for texts."""
    looked_at = texts("refusing.txt")[start::2]
    assert (len(looked_at), len(looked_at) - sum(map(declines_to_write, looked_at))) == (n, n_missed)


def test_only_words_of_the_model_itself_are_read() -> None:
    """In verse too, as a line break alone makes no poem; neither its thoughts nor its characters' words refuse."""
    reply = (
        "I'm sorry, but as an AI I can't claim to be a woman.\n\nHere is what I could do:\nWrite about rain.\nOr stars."
    )
    assert declines_to_write(reply)
    assert not declines_to_write("<think>I can't write this story, or can I?</think>The rain had keys to every house.")
    assert not declines_to_write('"I cannot write this story," said the witch, and wrote it.')
