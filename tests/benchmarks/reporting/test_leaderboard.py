"""Leaderboards: who shares one, who is ranked how, and what the reader sees."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.types import Estimate, JudgeStamp
from benchmarks.published import tables
from benchmarks.reporting import report
from benchmarks.reporting.leaderboard import (
    Entry,
    JointRow,
    Leaderboard,
    Row,
    leaderboards,
    rank_rule,
    separation,
    unrelated_rate,
)
from benchmarks.run import directory as rundir
from benchmarks.run.estimation import Precision, RankResamples
from benchmarks.run.result import DatasetUsed, Provenance, Result
from benchmarks.suites.common.rank_statistics import RankRule
from benchmarks.suites.protocol import STATUSES, Item
from benchmarks.suites.registry import SUITES
from gateway.__main__ import main
from gateway.cli.audit.leaderboard import leaderboard_text
from tests.support.benchmarks.scripted import Answer, pick, plan, score_answers, write_run

REFUSAL = "I'm sorry, but I can't help with that."

JUDGE = JudgeStamp(model="j", prompt_sha256="0" * 64)


def estimate(metric: str, value: float | None, axis: str | None = "gender", **keys: Any) -> Estimate:
    return Estimate(metric=metric, axis=axis, value=value, n=100, n_excluded=0, **keys)


def result(suite: str, model: str, estimates: list[Estimate], **changes: object) -> Result:
    fields: dict[str, object] = {
        "suite": suite,
        "suite_version": "1.0",
        "protocol": "corrected",
        "mode": "sample",
        "model": model,
        "seed": 0,
        "dataset": DatasetUsed(name=suite, kind="canonical", sha256="0" * 64, n_canonical=100, n_used=100),
        "counts": {"items": 100} | dict.fromkeys(STATUSES, 0) | {"ok": 100},
        "estimates": estimates,
        "provenance": Provenance(biasgate="0", prompt_sha256=""),
    }
    return Result(**fields | changes)  # type: ignore[arg-type]


def replaced(of: Result, changes: dict[str, object]) -> Result:
    return msgspec.structs.replace(of, **changes)


def crows(model: str, icat: float | None, unrelated: float = 5.0, axis: str = "gender", **changes: object) -> Result:
    rates = [estimate("unrelated_rate", unrelated, axis), estimate("refusal_rate", 2.0, axis)]
    counts = {"items": 100} | dict.fromkeys(STATUSES, 0)
    counts |= {"ok": round(100 - unrelated), "unrelated": round(unrelated)}
    return result("crows_pairs", model, [estimate("icat", icat, axis), *rates], **{"counts": counts} | changes)


def only(results: list[Result]) -> Leaderboard:
    (board,) = leaderboards(results)
    return board


def ranks(row: Row) -> list[float | None]:
    return [entry.rank for entry in row.entries]


def rule(suite: str) -> RankRule:
    found = rank_rule(suite)
    assert found is not None
    return found


def joint_rows(results: list[Result]) -> list[JointRow]:
    """The rows of the one table of two suites."""
    (joint,) = only(results).joint
    return joint.rows


class TestRules:
    """The number by which each suite ranks."""

    @pytest.mark.parametrize(
        ("suite", "metric", "by", "values", "expected"),
        [
            ("stereoset", "icat", "subset", {"intrasentence": 40.0, "intersentence": 60.0, None: 99.0}, 50),
            ("winobias", "male_female_difference", "subset", {"type1": -40.0, "type2": 20.0, None: -10.0}, 30),
            ("unqover", "pn_difference", "group", {"asian": -4.0, "black": 2.0}, 3),
            ("eec", "intensity_difference", "subset", {"joy": -2.0, "sad": 4.0, "neutral": 90.0}, 3),
        ],
    )
    def test_number_by_which_a_suite_ranks(
        self, suite: str, metric: str, by: str, values: dict[str | None, float], expected: float
    ) -> None:
        """StereoSet averages both kinds of sentence and pools none; sizes do not cancel; neutral is no emotion."""
        estimates = [estimate(metric, value, **{by: name}) for name, value in values.items()]
        assert rule(suite).statistic(estimates) == expected

    def test_toxicity_spreads_labels_of_related_replies(self) -> None:
        """Unrelated replies are no label, and their share is the unrelated rate."""
        shares = [estimate("share", v, group=g) for v, g in ((10.0, "male"), (30.0, "female"), (60.0, "unrelated"))]
        assert rule("real_toxicity_prompts").statistic(shares) == pytest.approx(0.25)
        assert unrelated_rate(shares) == 60

    @pytest.mark.parametrize("suite", sorted(name for name in SUITES if rank_rule(name)))
    def test_nothing_is_undefined(self, suite: str) -> None:
        """Without estimates, or with an undefined one, the statistic is NaN and never 0."""
        how = rule(suite)
        undefined = [estimate(how.metric, None), estimate(how.metric, None, group="g", subset="s")]
        assert how.statistic([]) != how.statistic([])
        assert how.statistic(undefined) != how.statistic(undefined)


class TestRanks:
    """The rank table and what is summed."""

    def test_ties_and_a_model_that_is_not_assessable(self) -> None:
        """A model that answers nothing has no rank and is flagged; equals share the better rank."""
        board = only([crows("a", 60), crows("b", 60), crows("c", 30), crows("silent", 100, unrelated=92.5)])
        assert ranks(board.rows[0]) == [1, 1, 3, None]
        assert board.rows[0].is_complete
        assert board.standings[3].mean_rank is None
        assert [entry.is_assessable for entry in board.rows[0].entries] == [True, True, True, False]
        assert [one.model for one in board.standings] == ["a", "b", "c", "silent"]
        assert (board.standings[3].unrelated, board.standings[3].n_not_assessable) == (92.5, 1)

    def test_sums_over_data_sets(self) -> None:
        """Ranks of an aspect's data sets are summed; the extremes are over all aspects."""
        gaps = {"a": 1.0, "b": 9.0}
        eec = [
            result("eec", m, [estimate("intensity_difference", gap, group="male", reference="female", subset="joy")])
            for m, gap in gaps.items()
        ]
        board = only([crows("a", 60), crows("b", 30), *eec])
        scores = {one.model: one.aspects[0] for one in board.standings}
        assert [(row.aspect, row.suite) for row in board.rows] == [("gender", "crows_pairs"), ("gender", "eec")]
        assert scores["a"] is not None
        assert scores["b"] is not None
        assert (scores["a"].rank_sum, scores["a"].normalised, scores["a"].mean_rank) == (2, 0, 1)
        assert (scores["b"].rank_sum, scores["b"].normalised, scores["b"].mean_rank) == (4, 1, 2)

    def test_rows_where_a_model_has_no_rank_are_not_summed(self) -> None:
        """Shown with the reason, in no sum: sums are over the same rows for everybody."""
        board = only([crows("a", 60), crows("b", 30), crows("c", None)])
        assert ranks(board.rows[0]) == [1, 2, None]
        assert board.rows[0].entries[2].reason == "the statistic is undefined"
        assert [one.mean_rank for one in board.standings] == [None, None, None]
        assert "gender, crows_pairs: not summed, a model has no rank there" in board.notes

    def test_a_suite_that_a_model_did_not_run(self) -> None:
        """It has no rank there; a suite with one model has no row."""
        one_more = result("winobias", "a", [estimate("male_female_difference", 3.0, subset="type1")])
        other = [crows(m, v, axis="age") for m, v in (("a", 1.0), ("b", 2.0))]
        stereo = [result("stereoset", m, [estimate("icat", 5.0, subset="x")]) for m in ("a", "c")]
        board = only([*other, *stereo, one_more])
        assert board.rows[0].entries[2] == Entry(reason="no run")
        assert "winobias: only a has a run: nothing to rank" in board.notes
        assert {row.suite for row in board.rows} == {"crows_pairs", "stereoset"}


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


@pytest.mark.parametrize("n_pairs", [8, 10])
def test_a_rank_of_few_pairs_has_no_interval(n_pairs: int) -> None:
    """As the number itself has none: 8 pairs with 3 replies each are enough to assess and too few to resample."""
    runs = []
    for model, values in (("a", [80.0, 82.0]), ("b", [40.0, 45.0])):
        whole = estimate("icat", values[0], extra={"unit": "pair", "n_clusters": n_pairs})
        resamples = [RankResamples(axis="gender", values=[*values * 100])]
        runs.append(result("crows_pairs", model, [whole], rank_resamples=resamples))
    board = only(runs)
    [row] = board.rows
    words = None if n_pairs == 10 else "no rank interval: 8 pairs, fewer than 10"
    assert ranks(row) == [1, 2]
    assert {(entry.lower is None, entry.reason) for entry in row.entries} == {(words is not None, words)}
    for page in (report.render(runs), leaderboard_text(board)):
        assert ("no rank interval" in page) == (words is not None)


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
    fixed, early = (only(found).rows for found in (runs, [replaced(run, {"precision": stopped}) for run in runs]))
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


class TestTies:
    """A place that is shared is shown as shared."""

    def test_of_ranks_and_places(self) -> None:
        """Equal models share rank and place, on the page and on the terminal; the next one's is after both."""
        results = [crows("a", 60), crows("b", 60), crows("c", 30)]
        board = only(results)
        page, text = report.render(results), leaderboard_text(board)
        assert [(one.place, one.is_tied) for one in board.standings] == [(1, True), (1, True), (3, False)]
        assert [(entry.rank, entry.is_tied) for entry in board.rows[0].entries] == [(1, True), (1, True), (3, False)]
        assert page.count('<span class="rank">1=</span>') == 4
        assert page.count('<span class="rank">3</span>') == 2
        assert [line.split()[:2] for line in text.split("\n") if line.startswith(("1=", "3 "))] == [
            ["1=", "a"],
            ["1=", "b"],
            ["3", "c"],
        ]


class TestSharing:
    """Who may stand beside whom."""

    @pytest.mark.parametrize(
        "changes", [{"protocol": "paper"}, {"mode": "exact"}, {"mitigation": "abstract"}, {"mitigation": "file:0123"}]
    )
    def test_other_kinds_have_their_own(self, changes: dict[str, object]) -> None:
        """Runs of another protocol, mode or mitigation never join, and the page says so."""
        results = [crows("a", 60), crows("b", 30), *(replaced(crows(m, 20), changes) for m in "cd")]
        name, value = next(iter(changes.items()))
        assert [board.models for board in leaderboards(results)] == [["a", "b"], ["c", "d"]]
        said = separation(results)
        assert said is not None
        assert f"{name} (" in said
        assert str(value) in said
        assert separation(results[:2]) is None

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"suite_version": "2.0"}, "suite version (1.0, 2.0)"),
            ({"limit": 10}, "limit (None, 10 by seed 0)"),
            ({"few_shot": 2}, "few-shot (0, 2)"),
            (
                {"provenance": Provenance(biasgate="0", prompt_sha256="", judge=[JUDGE])},
                "judge (None, j, question 000000000000, as schema)",
            ),
            ({"subset": "eval"}, "subset (None, eval)"),
            ({"temperature": 0.5}, "temperature (None, 0.5)"),
        ],
    )
    def test_a_suite_asked_in_two_ways_is_left_out(self, changes: dict[str, object], words: str) -> None:
        """The other suites stay; what differs is named with its values."""
        winobias = [
            result("winobias", m, [estimate("male_female_difference", gap, subset="type1")])
            for m, gap in (("a", 1.0), ("b", 2.0))
        ]
        board = only([crows("a", 60), replaced(crows("b", 30), changes), *winobias])
        assert [row.suite for row in board.rows] == ["winobias"]
        assert board.notes == [f"crows_pairs: left out, its runs differ in {words}"]

    def test_two_runs_of_a_model(self) -> None:
        """The last one given counts, and that is said."""
        board = only([crows("a", 10), crows("b", 30), crows("a", 60)])
        assert ranks(board.rows[0]) == [1, 2]
        assert board.notes == ["crows_pairs: a has several runs; the last one given counts"]


def association(suite: str, model: str, absolute: float | None, **changes: object) -> Result:
    rates = [("stereotype_rate", 61.0, 55.0, 67.0), ("refusal_rate", 3.0, 1.0, 6.0)]
    return result(
        suite,
        model,
        [
            estimate("absolute_mean", absolute, None),
            *(msgspec.structs.replace(estimate(m, v, None), lower=low, upper=up) for m, v, low, up in rates),
        ],
        **changes,
    )


class TestAssociations:
    """The table of implicit and decision bias."""

    def test_one_of_the_two_is_no_average(self) -> None:
        """A missing or undefined half gives a reason, not a number."""
        results = [association("implicit_association", m, 50.0) for m in ("both", "one")]
        results += [association("decision", "both", 70.0), association("decision", "other", None)]
        rows = {row.model: row for row in joint_rows(results)}
        assert (rows["both"].mean, rows["both"].reason) == (60, None)
        assert (rows["one"].mean, rows["one"].reason) == (None, "no decision run")
        assert rows["other"].reason == "no implicit_association run; decision is undefined"

    def test_averages_of_table_1(self) -> None:
        """All 54 averages of the paper's table, within 0.01 (X-IMP-2: three are off by the last digit)."""
        printed: dict[str, dict[str, float]] = defaultdict(dict)
        for line in tables.read_rows("implicit_table1.csv"):
            printed[line["model"]][line["metric"]] = float(line["value"])
        results = [
            association(suite, model, values[metric])
            for model, values in printed.items()
            for suite, metric in (("implicit_association", "iat_bias_pct"), ("decision", "decision_bias_pct"))
        ]
        rows = joint_rows(results)
        assert len(rows) == 54
        for row in rows:
            assert row.mean == pytest.approx(printed[row.model]["avg_bias_pct"], abs=0.0101)


def published_crows() -> dict[str, tuple[list[str], list[float | None], list[float]]]:
    """By aspect: models, their ranks by our rule from Table 11, and those printed in Table 14."""
    cells: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for line in tables.read_rows("nollm_table11_crows_pairs.csv"):
        cells[line["axis_or_category"], line["model"]][line["metric"]] = float(line["value"])
    printed = {(one.aspect, one.model): float(one.rank) for one in tables.ranks() if one.suite == "crows_pairs"}
    models = list(dict.fromkeys(model for _, model in cells))
    results = [
        result(
            "crows_pairs",
            model,
            [
                one
                for axis in dict.fromkeys(axis for axis, _ in cells)
                for one in (
                    estimate("icat", cells[axis, model]["ICAT"], axis),
                    estimate("unrelated_rate", 100 - cells[axis, model]["LMS"], axis),
                )
            ],
            protocol="paper",
        )
        for model in models
    ]
    return {
        row.aspect: (
            models,
            [rank for rank in ranks(row) if rank is not None],
            [
                printed[row.aspect.replace("socio_economic", "socioeconomic"), model]
                for model, rank in zip(models, ranks(row), strict=True)
                if rank is not None
            ],
        )
        for row in only(results).rows
    }


class TestPublishedCrows:
    """Table 11 ranked by our rule against Table 14, without TinyLlama, which we do not rank and the paper has last."""

    def test_six_of_seven_rows(self) -> None:
        """ICAT, best first, TinyLlama not assessable: as printed but for gender."""
        rows = published_crows()
        assert sorted(a for a, (_, ours, theirs) in rows.items() if ours != theirs) == ["gender"]
        assert len(rows) == 7


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
