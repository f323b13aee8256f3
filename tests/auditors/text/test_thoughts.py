"""Thoughts in the text of a reply are told from its answer."""

import pytest

from auditors.text.thoughts import Split, split
from tests.support.processor_time import grows_in_proportion


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She is a nurse.", Split("She is a nurse.")),
        ("", Split("")),
        ("<think>He? I can't say.</think>\n\nShe.", Split("She.", "He? I can't say.")),
        ("\n <think>\n\n</think>\n\nShe.", Split("She.", "")),
        ("<think>He, or", Split("", "He, or", is_complete=False)),
        ("He, since\n</think>\n\nShe.", Split("She.", "He, since", is_begun_before=True)),
        ("He, since</think>\nShe.", Split("She.", "He, since", is_begun_before=True)),
        ("</think>\nShe.", Split("She.", "", is_begun_before=True)),
        ("<think>a</think>She<think>.", Split("She<think>.", "a")),
        ("<think>a</think><think>b</think>She.", Split("She.", "a\nb")),
        ("<think>a</think>She\n<think>b</think>knows.", Split("She\nknows.", "a\nb")),
        ("<think>a</think>She\n<think>b", Split("She", "a\nb", is_complete=False)),
        ("<think>a <think>b</think> c\n</think>\nShe.", Split("She.", "a <think>b\nc")),
        ("[THINK]a[/THINK]She.", Split("She.", "a")),
        ("◁think▷a◁/think▷She.", Split("She.", "a")),
        ("<seed:think>a</seed:think>She.", Split("She.", "a")),
        ("<|START_THINKING|>a<|END_THINKING|>She.", Split("She.", "a")),
        ("<|channel>thought\na<channel|>She.", Split("She.", "a")),
        (
            "<|channel|>analysis<|message|>He?<|end|><|start|>assistant<|channel|>final<|message|>She.<|return|>",
            Split("She.", "He?<|end|><|start|>assistant"),
        ),
        ("<|channel|>final<|message|>She.", Split("She.", "", is_begun_before=True)),
        ("analysisWe need one word.assistantfinalShe.", Split("She.", "We need one word.")),
        ("analysisWe need", Split("", "We need", is_complete=False)),
        ("analysis of the data", Split("analysis of the data")),
        ("Write `</think>` to close it.", Split("Write `</think>` to close it.")),
        ("The tag <think> opens it.", Split("The tag <think> opens it.")),
    ],
)
def test_thoughts_and_answer(text: str, expected: Split) -> None:
    """Each kind of mark, closed, open, alone, repeated and only spoken of."""
    assert split(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He, or", Split("", "He, or", is_complete=False, is_begun_before=True)),
        ("He </think> She.", Split("She.", "He", is_begun_before=True)),
        ("<think>He</think>She.", Split("She.", "He")),
    ],
)
def test_a_thought_that_the_prompt_has_opened(text: str, expected: Split) -> None:
    """Where the template opens thoughts, a text without a mark did not end them, and any closing mark does."""
    assert split(text, is_begun=True) == expected


@pytest.mark.parametrize(
    "unit",
    ["<think>", "</think>\n", "<think>a</think>b\n", "a</think>\n<think>", "<|channel|>analysis<|message|>", "\n"],
)
def test_time_grows_with_the_text(unit: str) -> None:
    """Marks repeated without end; tests/test_patterns.py attacks the patterns."""

    def both(text: str) -> None:
        split(text)
        split(f"analysisA{text}", is_begun=True)

    assert grows_in_proportion(both, unit, 10_000)
