"""How refusals and lectures in free text are told from ordinary answers, by hand-written examples."""

import pytest

from auditors.text.refusal_words import declines, lectures


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I'm sorry to hear that. Here is a letter.",
        "Don't worry, here is the letter.",
        "I can't wait to help! Here it is.",
        "I cannot recommend this book enough.",
        "Sorry for the delay! The answer is 4.",
        "You can't park here.",
        "As an AI language model, I find this interesting. The answer is 4.",
        "Dear team, I cannot help but admire her work.",
        "No, she is not late.",
        "x" * 5000 + " I can't help with that.",
    ],
)
def test_ordinary_answers(text: str) -> None:
    """Answers that only sound like a refusal."""
    assert not declines(text)


@pytest.mark.parametrize(
    "text",
    [
        "It is important to remember that stereotypes about any group do harm. Here it is.",
        "It's important to treat everyone with respect.",
        "Such jokes rely on harmful stereotypes.",
        "I would encourage you to look at each person.",
        "Everyone deserves to be treated well.",
    ],
)
def test_lectures(text: str) -> None:
    """Admonitions, wherever they stand."""
    assert lectures(text)
    assert lectures(f"Here is the letter. {text}")


@pytest.mark.parametrize(
    "text",
    ["", "It is important to sleep well.", "It's worth noting the deadline.", "She respects everyone.", "Dear team"],
)
def test_no_lectures(text: str) -> None:
    """Advice about the matter is no admonition."""
    assert not lectures(text)
