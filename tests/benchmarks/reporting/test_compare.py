"""Two runs, paired by item."""

import zlib
from pathlib import Path

import msgspec
import pytest

from auditors.metrics.significance import repeated_level
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.compare import SAME_DIFFERENCE, Comparison, Difference, by_metric, compare, compared
from benchmarks.run import directory as rundir
from benchmarks.run.estimation import GROWTH, n_looks
from benchmarks.run.judge import NOT_GIVEN, JudgeUsed
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import encode
from benchmarks.run.score import cells
from benchmarks.suites.ltf_test.data import GROUPS
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Item, Observation, Reply
from benchmarks.suites.registry import SUITES
from gateway.cli.audit.compare import report as printed
from tests.benchmarks.suites.test_implicit_association import dictionary
from tests.support.benchmarks.scripted import Answer, pick, plan, write_run

LTF = LTFTest()


def total(comparison: Comparison, metric: str) -> Difference:
    return next(d for d in comparison.differences if (d.metric, d.axis, d.subset) == (metric, None, None))


def test_a_run_compared_with_itself(tmp_path: Path) -> None:
    """Same replies: every difference is 0 and no p value is small."""
    a, b = (write_run(tmp_path / name, pick("stereotype")) for name in "ab")

    comparison = compare(a, b)

    assert {row.difference for row in comparison.differences} == {0.0}
    assert {row.adjusted_p_value for row in comparison.differences if row.p_value is not None} == {1.0}
    assert total(comparison, "lms").reason == SAME_DIFFERENCE
    assert comparison.differing == {}


def test_opposite_models(tmp_path: Path) -> None:
    """Always stereotype against always anti: SS differs by -100 with the smallest p value, adjusted by Holm."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("anti-stereotype"))

    comparison = compare(a, b)
    ss = total(comparison, "ss")

    assert (ss.value_a, ss.value_b, ss.difference) == (100.0, 0.0, -100.0)
    assert ss.p_value == pytest.approx(1e-4)
    assert ss.adjusted_p_value is not None
    assert 1e-4 * comparison.n_comparisons < ss.adjusted_p_value <= 2e-4 * comparison.n_comparisons
    assert (comparison.n_paired, comparison.n_unpaired) == (48, 0)


def test_the_same_run_with_a_mitigation(tmp_path: Path) -> None:
    """Other prompts, same items: all pair, the option that differs is named, and rates are shown without a p value."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("anti-stereotype"), plan(mitigation="detailed"))

    comparison = compare(a, b)
    refusals = total(comparison, "refusal_rate")

    assert comparison.n_paired == 48
    assert comparison.differing == {"mitigation": ["none", "detailed"]}
    assert (refusals.difference, refusals.p_value, refusals.over_axes) == (0.0, None, "pooled")
    assert [row.axis for row in by_metric(comparison.differences)["ss"]] == [
        *("gender", "profession", "race", "religion"),
        None,
    ]


@pytest.mark.parametrize(("protocol", "difference"), [("corrected", 0.0), ("paper", -50.0)])
def test_refusals_by_the_protocol(tmp_path: Path, protocol: str, difference: float) -> None:
    """One run answers everything by the stereotype, the other refuses every second test: what it answers is alike."""
    ready = plan(suite="implicit_association", protocol=protocol)
    refused = {item.item_id for item in ready.items[::2]}

    def answer(item: Item) -> str:
        sides = zip(item.groups, (item.meta["xa"], item.meta["xb"]), strict=True)
        return str({word: group for group, words in sides for word in words})

    a = write_run(tmp_path / "a", answer, ready)
    b = write_run(
        tmp_path / "b", lambda item: "I'm sorry, I can't." if item.item_id in refused else answer(item), ready
    )
    comparison = compare(a, b)

    assert total(comparison, "absolute_mean").difference == pytest.approx(difference)
    assert total(comparison, "signed_mean").difference == pytest.approx(-difference)
    assert total(comparison, "stereotype_rate").difference == 0
    assert total(comparison, "refusal_rate").difference == pytest.approx(50)


def test_each_family_has_half_of_the_five_percent(tmp_path: Path) -> None:
    """Many numbers of parts do not weaken the table of whole axes further, nor are they forgotten."""
    comparison = compare(write_run(tmp_path / "a", pick("stereotype")), write_run(tmp_path / "b", pick("unrelated")))
    whole = [row for row in comparison.differences if row.is_whole and row.p_value is not None]
    parts = [row for row in comparison.differences if not row.is_whole and row.p_value is not None]

    assert (len(whole), len(parts)) == (comparison.n_comparisons, comparison.n_comparisons_of_parts)
    lms = total(comparison, "lms")
    assert lms.p_value == pytest.approx(1e-4)
    assert lms.adjusted_p_value is not None
    assert lms.adjusted_p_value <= 2e-4 * len(whole) + 1e-12
    assert comparison.expected_by_chance == pytest.approx(0.05)


def test_runs_that_could_stop_early(tmp_path: Path) -> None:
    """What is said of their difference holds at every look of either: intervals are wider and p values larger, and both
    file and terminal name the looks. Two runs that look at the same items share their looks.
    """

    def leaning(percent: int) -> Answer:
        return lambda item: dictionary(
            item, is_reversed=zlib.crc32(f"{percent} {item.item_id}".encode()) % 100 >= percent
        )

    fixed = plan(suite="implicit_association")
    early = plan(suite="implicit_association", precision=0.1)
    other = plan(suite="implicit_association", precision=0.1, limit=200)
    a = write_run(tmp_path / "a", leaning(40), fixed)
    found = {
        name: compare(
            write_run(tmp_path / f"{name}-a", leaning(40), one), write_run(tmp_path / f"{name}-b", leaning(60), two)
        )
        for name, one, two in (("same", early, early), ("one", fixed, early), ("two", early, other))
    }
    plain = total(compare(a, write_run(tmp_path / "b", leaning(60), fixed)), "stereotype_rate")
    repeated = total(found["same"], "stereotype_rate")

    assert [one.n_looks for one in found.values()] == [n_looks(400), n_looks(400), n_looks(400) + n_looks(200)]
    assert repeated.difference == plain.difference
    assert plain.lower is not None
    assert plain.upper is not None
    assert plain.p_value is not None
    assert repeated.lower is not None
    assert repeated.upper is not None
    assert repeated.p_value is not None
    assert repeated.lower < plain.lower < plain.upper < repeated.upper
    level = repeated_level(n_looks(400), GROWTH)
    assert repeated.p_value == pytest.approx(min(1.0, plain.p_value * 0.05 / (1 - level)))
    assert found["same"].method.startswith("repeated ")
    assert f"each of the {n_looks(400)} looks at which a run might have stopped" in printed(found["same"])
    assert "--precision" not in printed(compare(a, tmp_path / "b"))


@pytest.mark.parametrize("suite", sorted(name for name, one in SUITES.items() if not one.needs_judge))
def test_rates_beside_the_scores_cost_no_comparison(suite: str) -> None:
    """Refused and unrelated replies are compared without a p value in every suite."""
    ready = plan(suite=suite, limit=300)
    observations = [Observation(item, Reply(item_id=item.item_id, status="refusal")) for item in ready.items]
    made = cells(ready.options, ready.suite, observations)
    rates = [cell for cell in made if cell.metric in ("refusal_rate", "unrelated_rate")]

    assert rates
    assert all(cell.is_secondary for cell in rates)


def test_a_judge_that_is_not_validated_is_named(tmp_path: Path) -> None:
    """On the side whose numbers rest on it, in the file and on the terminal."""
    a, b = (write_run(tmp_path / name, pick("stereotype")) for name in "ab")
    result = rundir.read_result(b)
    used = JudgeUsed(model="j", validated=False, reason=NOT_GIVEN)
    (b / rundir.RESULT).write_bytes(encode(msgspec.structs.replace(result, judge=used)))

    comparison = compare(a, b)

    assert comparison.judge_faults == {"b": NOT_GIVEN}
    assert f"not validated: {NOT_GIVEN}" in printed(comparison)
    assert "judge of A" not in printed(comparison)


class TestEssays:
    """Two runs of judged essays, as LTF Tables 1 and 2 set them side by side."""

    @staticmethod
    def essays(score: dict[bool, int], *, unread: int = 0) -> list[Observation]:
        """Gender and ability: essays that favour the first group of a pair score one thing, the others another.

        The judgement of the first `unread` essays cannot be read.
        """
        items = [
            i for i in LTF.items(LTF.load("embedded"), protocol="paper", seed=0) if i.axis in ("gender", "ability")
        ]
        first = {axis: GROUPS[axis][0].name for axis in ("gender", "ability")}

        def reply(n: int, item: Item) -> Reply:
            if n < unread:
                return Reply(item_id=item.item_id, status="malformed")
            return Reply(item_id=item.item_id, status="ok", parsed=score[item.groups[0] == first[item.axis]])

        return [Observation(item, reply(n, item)) for n, item in enumerate(items)]

    def test_mean_columns(self) -> None:
        """The mean of DoB is unweighted, that of AbsDisc pooled; differences of both follow from the axes."""
        a = self.essays({True: 1, False: 0})
        b = self.essays({True: 2, False: 0})
        n = {axis: sum(o.item.axis == axis for o in a) for axis in ("gender", "ability")}
        half = [o for o in b if o.item.axis == "gender"] + [o for o in a if o.item.axis == "ability"]

        tables = by_metric(compared(LTF.cells(a, protocol="paper"), LTF.cells(half, protocol="paper"), seed=0))

        dob, absolute = (
            {row.axis: row for row in tables[metric]} for metric in ("dob_table", "absolute_discrimination")
        )
        assert (dob[None].over_axes, absolute[None].over_axes) == ("unweighted", "pooled")
        assert dob["gender"].value_a == pytest.approx(0.408)
        assert dob["gender"].value_b == pytest.approx(0.816)
        assert dob["ability"].difference == 0.0
        assert dob[None].difference == pytest.approx(0.408 / 2)
        assert absolute["gender"].difference == pytest.approx(0.5)
        assert absolute[None].difference == pytest.approx(0.5 * n["gender"] / sum(n.values()))
        assert n["gender"] != n["ability"]

    def test_essays_without_a_score_on_one_side(self) -> None:
        """Pairs whose judgement cannot be read in one run do not shift the others: values stay, and so does pairing."""
        a, b = self.essays({True: 1, False: 0}), self.essays({True: 1, False: 0}, unread=4)

        rows = compared(LTF.cells(a, protocol="paper"), LTF.cells(b, protocol="paper"), seed=0)

        assert {row.difference for row in rows if row.metric == "dob_table"} == {0.0}
        by_group = [row for row in rows if (row.metric, row.axis, row.subset) == ("favoritism", "gender", None)]
        assert {row.difference for row in by_group} == {0.0}
        assert len({row.n_clusters for row in by_group}) == 1


def test_only_shared_items_are_compared(tmp_path: Path) -> None:
    """Replies without a partner are counted and left out on both sides."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("stereotype"), first=40)

    comparison = compare(a, b)

    assert (comparison.n_paired, comparison.n_unpaired) == (40, 8)


def test_few_clusters_and_undefined_scores_have_reasons(tmp_path: Path) -> None:
    """A difference without interval or value says why."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("unrelated"))

    comparison = compare(a, b)

    assert total(comparison, "ss").difference is None
    assert total(comparison, "ss").reason == "undefined in B: no reply was stereotypical or anti-stereotypical"
    few = [row for row in comparison.differences if row.metric == "lms" and row.axis and row.subset]
    assert {row.reason for row in few} == {"no interval: 6 target terms to resample, fewer than 10"}
    assert {row.p_value for row in few} == {None}


@pytest.mark.parametrize(
    ("suite", "options", "words"),
    [
        ("stereoset", ({}, {"protocol": "paper"}), 'protocol is "corrected" and "paper"'),
        ("winobias", ({"few_shot": 2}, {"few_shot": 4}), 'few_shot is "2" and "4"'),
    ],
)
def test_runs_of_different_kinds_are_refused(
    tmp_path: Path, suite: str, options: tuple[dict[str, object], ...], words: str
) -> None:
    """Numbers of different protocols, or after other examples, never share a table."""
    a, b = (write_run(tmp_path / str(n), lambda _: "he", plan(suite=suite, **one)) for n, one in enumerate(options))

    with pytest.raises(BenchmarkError, match=words):
        compare(a, b)


def test_runs_without_a_shared_item_are_refused(tmp_path: Path) -> None:
    """Nothing in common is an error that says what to do."""
    a = write_run(tmp_path / "a", pick("stereotype"), first=1)
    b = write_run(tmp_path / "b", lambda _: "perhaps", plan(limit=1, seed=3))

    with pytest.raises(BenchmarkError, match="share no answered item"):
        compare(a, b)


def test_not_a_run_directory(tmp_path: Path) -> None:
    """A folder without run.json is named."""
    with pytest.raises(BenchmarkError, match="no run directory"):
        compare(tmp_path, tmp_path)


def test_runs_of_bbq_are_read_from_their_directories(tmp_path: Path) -> None:
    """Items in a file have lists where those in memory have tuples; compared with itself nothing differs."""
    ready = prepare(RunOptions(suite="bbq", model="m", data="embedded"))
    one, other = (write_run(tmp_path / name, lambda item: item.choices[0].text, ready) for name in ("a", "b"))
    found = compare(one, other)
    accuracy = next(
        row for row in found.differences if (row.metric, row.axis, row.subset) == ("accuracy", None, "ambig")
    )
    assert accuracy.difference == 0
