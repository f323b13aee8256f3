"""Leaderboards: who shares one, who is ranked how, and what the reader sees."""

from collections import defaultdict

import msgspec
import pytest

from auditors.types import JudgeStamp
from benchmarks.published import tables
from benchmarks.reporting import report
from benchmarks.reporting.leaderboard import Entry, JointRow, leaderboards, rank_rule, separation, unrelated_rate
from benchmarks.run.estimation import RankResamples
from benchmarks.run.result import Provenance, Result
from benchmarks.suites.common.rank_statistics import RankRule
from benchmarks.suites.registry import SUITES
from gateway.cli.audit.leaderboard import leaderboard_text
from tests.support.benchmarks.made_results import crows, estimate, only, ranks, result

JUDGE = JudgeStamp(model="j", prompt_sha256="0" * 64)


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
        results = [crows("a", 60), crows("b", 30), *(msgspec.structs.replace(crows(m, 20), **changes) for m in "cd")]
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
        board = only([crows("a", 60), msgspec.structs.replace(crows("b", 30), **changes), *winobias])
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
