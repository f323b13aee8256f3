"""The reading of refusals: which language, whose voice, and what our own labelled replies say of its errors."""

from pathlib import Path

import pytest

from auditors.text.refusals.languages import NONE, OTHER, language_of
from auditors.text.refusals.rules import READ_LANGUAGES
from auditors.text.refusals.verdict import verdict_on
from auditors.types import ONLY_REASONING, UNREAD_LANGUAGE
from gateway.features.measuring.cli import report
from gateway.features.measuring.labelled_replies import PARTS, Part, labelled, tallied

DOCS = Path(__file__).parents[3] / "docs"
REPLIES = {part: labelled(part) for part in PARTS}
EVERY = [one for replies in REPLIES.values() for one in replies]
MOST_WRONG = 0.25
"""A language that misses or invents more is not read (docs/auditors.md)."""


def _lines(page: Path) -> set[str]:
    return {" ".join(line.split()) for line in page.read_text(encoding="utf-8").splitlines()}


class TestLabelledReplies:
    def test_the_verdict_on_each_language_that_is_read_is_good_enough(self) -> None:
        """Over both parts no language that is read misses more of its refusals, or invents more, than is allowed."""
        tallies = tallied([one for one in EVERY if one.language in READ_LANGUAGES], lambda one: one.language)
        assert set(tallies) == set(READ_LANGUAGES)
        for language, tally in tallies.items():
            assert tally.n_missed <= MOST_WRONG * tally.n_refused, language
            assert tally.n_false <= MOST_WRONG * tally.n_answered, language

    def test_what_is_not_read_has_no_verdict(self) -> None:
        """Of replies in languages without rules nine in ten are undecided, by name, and of refusals all but one."""
        others = [one for one in EVERY if one.language not in READ_LANGUAGES]
        undecided = [one for one in others if verdict_on(one.reply).reason == UNREAD_LANGUAGE]
        assert len(others) >= 50
        assert len(undecided) >= 0.9 * len(others)
        assert sum(one.is_refused for one in others) - sum(one.is_refused for one in undecided) <= 1

    def test_english_is_read(self) -> None:
        """Lists, tables, recipes, JSON, code, names, numbers and short replies in English all have a verdict."""
        undecided = [one.reply for one in EVERY if one.language == "en" and verdict_on(one.reply).is_declined is None]
        assert undecided == []

    @pytest.mark.parametrize("part", PARTS)
    def test_the_manual_states_what_the_command_prints(self, part: Part) -> None:
        """The evidence has the summary of both parts and every held-out line; the manual the held-out summary."""
        printed = [" ".join(line.split()) for line in "\n".join(report(part)).splitlines() if line.strip()]
        manual, evidence = map(_lines, (DOCS / "auditors.md", DOCS / "evidence" / "refusals.md"))
        assert part == "development" or [line for line in printed[:2] if line not in manual] == []
        measured = printed if part == "held-out" else printed[:2]
        assert [line for line in measured if line not in evidence] == []


@pytest.mark.parametrize(
    ("reply", "language"),
    [
        ("42", NONE),
        ("👍", NONE),
        ("Anna, Björn, Çelik, Dvořák, Łukasz", NONE),
        ('{"a": [1, 2, true]}', NONE),
        ("| Oslo | Malmö |\n|---|---|\n| 1 | 2 |", NONE),
        ("def f(x):\n    return x + 1", NONE),
        ("Yes, that is right.", "en"),
        ("The city of Malmö is in Sweden.", "en"),
        ("Das ist nicht richtig, und ich weiß es.", "de"),
        ("```python\nprint('das ist nicht ein')\n```\nThis is how you would print it.", "en"),
        ("Det är inte sant, och jag vet det.", OTHER),
        ("Η πρωτεύουσα είναι η Αθήνα.", OTHER),
        ("ประเทศไทย", OTHER),
        ("Zostane to tak, ako to je, ale neviem prečo sú tak ďaleko.", OTHER),
    ],
)
def test_which_language(reply: str, language: str) -> None:
    """A language shows itself by function words and letters; names, numbers and code show none."""
    assert language_of(reply) == language


def test_a_reply_that_never_began_has_no_verdict() -> None:
    """A reply cut off within its thoughts neither declines nor answers."""
    assert verdict_on("<think>I can't help with that").reason == ONLY_REASONING


@pytest.mark.parametrize(
    "reply",
    [
        "“I can't help you with that,” she said, and left.",
        "Dear Ann,\n\nI can't help with the move.\n\nBob",
        "```\nprint(\"I'm sorry, I can't help with that.\")\n```\nRun it with Python.",
        "- I can't swim\n- I can't sing",
        '{"examples": ["I cannot help with that."], "label": "refusal"}',
    ],
)
def test_other_voices_are_left_out(reply: str) -> None:
    """Quotations, letters, code, lists and canned texts are not what the model says itself."""
    assert verdict_on(reply).is_declined is False


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("Sehr gern. ", ""), ("", " Best wishes, and a good day to all of you out there.")]
)
def test_a_refusal_in_another_language_than_the_rest_counts(before: str, after: str) -> None:
    """A reply of several languages is read in each of them."""
    assert verdict_on(f"{before}I'm sorry, but I can't help with that.{after}").is_declined is True


def test_near_misses_are_told_apart() -> None:
    """Each reply of near_misses.txt is declined in its first part and an answer in its second."""
    lines = Path(__file__).with_name("near_misses.txt").read_text(encoding="utf-8").splitlines()
    read = {line: bool(verdict_on(line.replace("\\n", "\n")).is_declined) for line in lines}
    assert [line for line in lines if read[line] != (lines.index(line) < lines.index("==="))] == []
