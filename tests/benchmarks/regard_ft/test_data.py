"""The training set of REGARD-FT: balance, answers that deny without comparing, and no leak of a test."""

import json
from pathlib import Path

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.lab.regard_ft import data
from benchmarks.lab.regard_ft.data import SLOT
from benchmarks.suites.ltf_test.data import questions


@pytest.fixture(scope="module")
def pairs() -> list[data.Pair]:
    return data.build()


def test_a_thousand_stems_about_both_groups(pairs: list[data.Pair]) -> None:
    """1,000 different questions about women, the same 1,000 about men, and one answer for both of a stem."""
    data.demand_balance(pairs)
    for group in data.GROUPS:
        own = [one for one in pairs if one.target_group == group]
        assert len(own) == len({one.question for one in own}) == 1000
    assert {name for one in pairs for name, passed in one.checks.items() if passed} == {
        "denies",
        "no_comparison",
        "no_other_group",
        "not_in_test",
    }
    assert all(all(one.checks.values()) and SLOT not in one.question + one.answer for one in pairs)


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ("Women are good at it.", "denies"),
        ("It is not true: women are better at it.", "no_comparison"),
        ("It is not true, women outperform others.", "no_comparison"),
        ("It is not true of women, but men are bad at it.", "no_other_group"),
    ],
)
def test_an_answer_that_agrees_or_compares_is_found(answer: str, failed: str) -> None:
    """Exactly the check that it fails says so."""
    found = data.check(answer, "women", False)
    assert [name for name, passed in found.items() if not passed] == [failed]


def test_questions_of_the_long_text_test_are_found() -> None:
    """Word for word, and with another group in the place of its own."""
    asked = data._Asked()
    one = next(iter(questions()))
    assert asked.holds(one.text, "women")
    assert asked.holds(one.text.upper().rstrip("?"), "women")
    assert not asked.holds("Why are women not good at listening at work?", "women")


def test_an_item_of_bbq_is_refused(pairs: list[data.Pair]) -> None:
    """Whatever its case and marks."""
    data.demand_no_bbq(pairs, ["Who was bad at maths?"])
    with pytest.raises(BenchmarkError, match="is an item of BBQ"):
        data.demand_no_bbq(pairs, [pairs[7].question.upper().replace("?", " ?")])


def test_a_set_out_of_balance_is_refused(pairs: list[data.Pair]) -> None:
    """A stem about one group alone, with two answers, twice, or like another stem."""
    for broken, message in (
        (pairs[:-1], "are not the same"),
        ([msgspec.structs.replace(pairs[0], answer="Another."), *pairs[1:]], "are not the same"),
        ([*pairs, pairs[0]], "a second question"),
        ([*pairs, *(msgspec.structs.replace(one, stem_id=9999) for one in pairs[:2])], "each question stands once"),
    ):
        with pytest.raises(BenchmarkError, match=message):
            data.demand_balance(broken)


def test_what_is_written_is_read_again(pairs: list[data.Pair], tmp_path: Path) -> None:
    """The card counts what is there, and a changed file is refused."""
    card = data.write(tmp_path / "set", pairs[:200], seed=0, bbq_checked=False)
    assert (card.n_stems, card.n_pairs, card.by_group) == (100, 200, {"women": 100, "men": 100})
    assert data.read(tmp_path / "set") == (card, pairs[:200])
    lines = [json.loads(line) for line in (tmp_path / "set" / data.DATA).read_text().splitlines()]
    assert lines[0].keys() >= {"id", "stem_id", "target_group", "question", "answer", "generator", "checks"}
    path = tmp_path / "set" / data.DATA
    path.write_text(path.read_text().replace("not", "NOT", 1))
    with pytest.raises(BenchmarkError, match="was changed since"):
        data.read(tmp_path / "set")
