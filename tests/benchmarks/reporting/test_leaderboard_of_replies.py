"""Leaderboards from recorded replies: what a declined one is, how wide ranks are, the page and the terminal."""

import random
from pathlib import Path

import msgspec
import pytest

from benchmarks.run import directory as rundir
from benchmarks.run.estimation import Precision
from benchmarks.run.result import Result
from benchmarks.suites.protocol import Item
from benchmarks.suites.registry import SUITES
from gateway.__main__ import main
from tests.support.benchmarks.made_results import only, ranks
from tests.support.benchmarks.scripted import Answer, pick, plan, score_answers, write_run

REFUSAL = "I'm sorry, but I can't help with that."


DECLINES = {
    "unqover": "It cannot be determined from the context.",
    "real_toxicity_prompts": "There is not enough information to tell.",
}


class TestDeclining:
    """What a declined reply is to each suite."""

    @pytest.mark.parametrize("suite", sorted(DECLINES))
    def test_a_model_that_says_what_cannot_be_told_is_first(self, suite: str) -> None:
        """On both suites nothing decides the question, so it shows no preference; a leaning one is behind it."""
        runs = [scored(suite, "declines", lambda _: DECLINES[suite]), scored(suite, "leans", LEANING[suite])]
        rows = [row for row in only(runs).rows if row.suite == suite]
        assert rows
        assert {row.entries[0].rank for row in rows} == {1}
        assert all(row.entries[0].value == 0 for row in rows)
        assert all((row.entries[1].rank or 0) >= 1 for row in rows)
        assert max(row.entries[1].rank or 0 for row in rows) == 2
        assert {row.entries[0].declined for row in rows} == {100}

    @pytest.mark.parametrize("suite", sorted(DECLINES))
    @pytest.mark.parametrize("reply", ["qqq zzz", REFUSAL])
    def test_gibberish_and_refusals_say_nothing(self, suite: str, reply: str) -> None:
        """A model that answers something else, or declines whatever it is asked, has no rank, and the row says why."""
        runs = [scored(suite, "silent", lambda _: reply), *(scored(suite, m, LEANING[suite]) for m in "ab")]
        row = only(runs).rows[0]
        assert ranks(row) == [None, 1, 1]
        assert "replies name an option; at least 10 replies and 25 % are needed" in (row.entries[0].reason or "")


def scored(suite: str, model: str, answer: Answer) -> Result:
    return score_answers(answer, suite=suite, model=model)


def first_for_good(item: Item) -> str:
    """The group that comes first in the alphabet, for positive questions; the other one for negative ones."""
    first, second = sorted(item.choices, key=lambda choice: choice.role)
    return (first if item.subset == "positive" else second).text


LEANING: dict[str, Answer] = {
    "unqover": first_for_good,
    "real_toxicity_prompts": lambda item: {
        "gender": "he",
        "race": "white",
        "religion": "christian",
        "profession": "engineer",
    }[item.axis],
}


def test_a_run_that_could_stop_early_has_wider_rank_intervals() -> None:
    """They hold at every look, so they have a higher level than those of runs of a fixed size."""
    rng = random.Random(1)
    shares = {"far": 0.27, "farther": 0.2, "farthest": 0.14}

    def leaning(share: float) -> Answer:
        return lambda item: "he" if rng.random() < share else "she"

    runs = [scored("winobias", model, leaning(share)) for model, share in shares.items()]
    stopped = Precision(
        demanded=0.1, demanded_in_unit=10, metric="male_female_difference", found=9.0, is_reached=True,
        n_planned=400, n_asked=96, looks=2, looks_planned=8, level_of_a_look=0.995,
    )  # fmt: skip
    fixed, early = (
        only(found).rows for found in (runs, [msgspec.structs.replace(run, precision=stopped) for run in runs])
    )
    widths = []
    for one, other in zip(fixed, early, strict=True):
        for plain, repeated in zip(one.entries, other.entries, strict=True):
            assert plain.lower is not None
            assert plain.upper is not None
            assert repeated.lower is not None
            assert repeated.upper is not None
            assert repeated.lower <= plain.lower <= plain.upper <= repeated.upper
            widths.append((plain.upper - plain.lower, repeated.upper - repeated.lower))
    assert any(plain < repeated for plain, repeated in widths)


def alternating(item: Item) -> str:
    """The stereotype for every second item."""
    role = "stereotype" if sum(item.item_id.encode()) % 2 else "anti-stereotype"
    return pick(role)(item)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on two suites: one always stereotypical, one in turn, one that refuses."""
    root = tmp_path_factory.mktemp("runs")
    answers: dict[str, Answer] = {"biased": pick("stereotype"), "even": alternating, "silent": lambda _: REFUSAL}
    for model, answer in answers.items():
        for suite in ("stereoset", "crows_pairs"):
            write_run(root / f"{model}-{suite}", answer, plan(suite=suite, model=model))
    return root


class TestFromDirectories:
    """From recorded replies to a page and to a terminal."""

    def test_the_refusing_model_does_not_win(self, directory: Path) -> None:
        """The even model is first; the silent one has no place. Axes with fewer than ten items rank nobody."""
        board = only([rundir.read_result(path) for path in rundir.finished_under(directory)])
        assert [one.model for one in board.standings] == ["even", "biased", "silent"]
        assert board.standings[0].mean_rank == 1
        assert (board.standings[2].place, board.standings[2].n_not_assessable) == (None, 11)
        assert (len(board.rows), sum(row.is_ranked for row in board.rows)) == (11, 4)
        assert (board.standings[2].unrelated, board.standings[2].refused) == (100, 100)
        assert {note.split(": ")[0].split(", ")[1] for note in board.notes} == {"crows_pairs"}

    def test_page(self, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """One folder of runs makes a page with the leaderboard, marked as not comparable, with refusals in it."""
        out = tmp_path / "page.html"
        assert main(["audit", "report", str(directory), "--out", str(out)]) == 0
        page = out.read_text(encoding="utf-8")
        board = page.split('class="board"')[1].split("</section>")[0]
        assert "Embedded, not comparable" in board
        assert "Lowest mean rank: <b>even</b> (1.00; 1 is least biased everywhere). In 0 of 4 rows" in board
        assert "100.0 % unrelated, 100.0 % refused" in board
        assert "intervals of 95 % are shown for this run" in page

    def test_terminal(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Without --out the same tables are printed; a single run prints its numbers."""
        assert main(["audit", "report", str(directory)]) == 0
        out = capsys.readouterr().out
        assert "Leaderboard: corrected protocol · sample · embedded data" in out
        assert "embedded, not comparable" in out
        assert out.index("even ") < out.index("biased ") < out.index("silent ")
        assert "not assessable, without a place: silent: 100.0 % refusal" in out
        assert main(["audit", "report", str(directory / "even-stereoset")]) == 0
        assert f"stereoset {SUITES['stereoset'].version}, corrected protocol" in capsys.readouterr().out
