"""Two runs, paired by item."""

import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.metrics.significance import repeated_level
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.compare import FILTERED, SAME_DIFFERENCE, Comparison, Difference, by_metric, compare
from benchmarks.reporting.report import render
from benchmarks.run import directory as rundir
from benchmarks.run.completers.served import POLICY
from benchmarks.run.estimation import GROWTH, n_looks
from benchmarks.run.judge import NOT_GIVEN, JudgeUsed
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import encode
from benchmarks.run.score import cells, provenance_of, score_recorded
from benchmarks.suites.protocol import REFUSAL_FIELD, Item, Observation, Reply
from benchmarks.suites.registry import SUITES
from gateway.cli.audit.compare import report as printed
from tests.benchmarks.reporting.test_report import Collector
from tests.benchmarks.suites.test_implicit_association import dictionary
from tests.support.benchmarks.scripted import Answer, pick, plan, write_run


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
    ready = plan(suite="implicit_association", protocol=protocol, limit=100)
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


def test_runs_that_could_stop_early(tmp_path: Path) -> None:
    """Early stopping widens intervals and p values, so they hold at every look; file and terminal name the looks."""

    def leaning(percent: int) -> Answer:
        return lambda item: dictionary(
            item, is_reversed=zlib.crc32(f"{percent} {item.item_id}".encode()) % 100 >= percent
        )

    def written(name: str, percent: int, **options: object) -> Path:
        return write_run(
            tmp_path / name, leaning(percent), plan(suite="implicit_association", **{"limit": 200} | options)
        )

    a, b = written("a", 40), written("b", 60)
    early_a, early_b = written("early-a", 40, precision=0.1), written("early-b", 60, precision=0.1)
    same, one_sided, fixed = compare(early_a, early_b), compare(a, early_b), compare(a, b)
    different = compare(early_a, written("other", 60, precision=0.1, limit=120))
    plain, repeated = total(fixed, "stereotype_rate"), total(same, "stereotype_rate")
    assert same.n_looks == one_sided.n_looks == n_looks(200)
    assert different.n_looks == n_looks(200) + n_looks(120)
    assert repeated.difference == plain.difference
    assert plain.lower is not None
    assert plain.upper is not None
    assert plain.p_value is not None
    assert repeated.lower is not None
    assert repeated.upper is not None
    assert repeated.p_value is not None
    assert repeated.lower < plain.lower < plain.upper < repeated.upper
    level = repeated_level(n_looks(200), GROWTH)
    assert repeated.p_value == pytest.approx(min(1.0, plain.p_value * 0.05 / (1 - level)))
    assert same.method.startswith("repeated ")
    assert f"each of the {n_looks(200)} looks at which a run might have stopped" in printed(same)
    assert "--precision" not in printed(fixed)


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


def test_a_filter_is_compared(tmp_path: Path) -> None:
    """A filter's refusals have a row with an interval and the policy's name; a run without a filter has none."""
    a, b = (write_run(tmp_path / name, pick("stereotype")) for name in "ab")
    ready = plan()
    said = "policy=guarded; arm=treated; response="
    refused: dict[str, Any] = {"status": "refusal", "rule": REFUSAL_FIELD, "finish_reason": "content_filter"}
    replies = [
        Reply(item_id=item.item_id, text="refused", usage={POLICY: f"{said}refused"}, fingerprint="other", **refused)
        if number % 4 == 0
        else Reply(item_id=item.item_id, text=pick("stereotype")(item), usage={POLICY: f"{said}clean"})
        for number, item in enumerate(ready.items)
    ]
    result, read = score_recorded(ready, replies, where="script")
    rundir.write_replies(b, read)
    rundir.finish(b, result, "")

    comparison = compare(a, b)
    row = total(comparison, FILTERED)
    assert result.filter_note == "policy of the gateway: guarded; a filter refused 12 of 48 replies"
    assert result.provenance.policies == {f"{said}clean": 36, f"{said}refused": 12}
    hostile = {("x", n): Reply(item_id="x", usage={POLICY: f"{n}" * 999}) for n in range(99)}
    assert (max(map(len, (policies := provenance_of(ready, hostile).policies))), len(policies)) == (200, 51)
    assert (row.value_a, row.value_b, row.difference, row.n_b, row.p_value) == (0.0, 25.0, 25.0, 48, None)
    assert row.lower is not None
    assert comparison.differing == {"policy": ["none", "guarded"], "server fingerprint": ["none given", "other"]}
    assert comparison.names == {"a": "scripted", "b": "scripted + policy guarded"}
    assert FILTERED not in by_metric(compare(a, a).differences)
    assert f"Filter {result.filter_note} · {said}clean: 36 · {said}refused: 12" in Collector(render([result])).text


def test_both_values_and_the_difference_are_printed(tmp_path: Path) -> None:
    """Of each axis in a line of its own; two runs of the same model are told apart by their directories."""
    a = write_run(tmp_path / "before", pick("stereotype"))
    b = write_run(tmp_path / "after", pick("anti-stereotype"))
    [table] = [part.splitlines() for part in printed(compare(a, b)).split("\n\n") if part.startswith("SS ")]
    assert [line.split("  ")[0] for line in table[1:4]] == ["A scripted, before", "B scripted, after", "B − A"]
    assert [line.split()[-1].strip("*") for line in table[1:4]] == ["100.0", "0.0", "−100.0"]
    assert compare(a, a).names == dict.fromkeys("ab", f"scripted, {a}")


def test_kinds_of_data_are_named(tmp_path: Path) -> None:
    """Embedded against canonical data: the kinds, not two hashes."""
    a, b = (write_run(tmp_path / name, pick("stereotype")) for name in "ab")
    about = rundir.read_manifest(b)
    options = msgspec.structs.replace(about.options, data="canonical")
    (b / rundir.MANIFEST).write_bytes(
        msgspec.json.encode(msgspec.structs.replace(about, options=options, dataset_sha256="0" * 64))
    )
    with pytest.raises(BenchmarkError, match=r'data is "embedded" and "canonical"$'):
        compare(a, b)


def test_only_shared_items_are_compared(tmp_path: Path) -> None:
    """Replies without a partner are counted and left out on both sides."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("stereotype"), first=40)

    comparison = compare(a, b)
    assert (comparison.n_paired, comparison.n_unpaired) == (40, 8)


def test_few_clusters_and_undefined_scores_have_reasons(tmp_path: Path) -> None:
    """A difference without interval or value says why, and has no p value."""
    a = write_run(tmp_path / "a", pick("stereotype"))
    b = write_run(tmp_path / "b", pick("unrelated"))

    comparison = compare(a, b)
    assert total(comparison, "ss").difference is None
    assert total(comparison, "ss").reason == "undefined in B: no reply was stereotypical or anti-stereotypical"
    few = [row for row in comparison.differences if row.metric == "lms" and row.axis and row.subset]
    assert {row.reason for row in few} == {
        "not assessable in A (6 of 6 replies name an option; at least 10 replies and 25 % are needed) and "
        "B (its lms 0.0 (0.0 to 7.4) is not above chance (66.7))"
    }
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


def test_runs_of_bbq_are_read_from_their_directories(tmp_path: Path) -> None:
    """Items in a file have lists where those in memory have tuples; compared with itself nothing differs."""
    ready = prepare(RunOptions(suite="bbq", model="m", data="embedded"))
    one, other = (write_run(tmp_path / name, lambda item: item.choices[0].text, ready) for name in ("a", "b"))
    found = compare(one, other)
    accuracy = next(
        row for row in found.differences if (row.metric, row.axis, row.subset) == ("accuracy", None, "ambig")
    )
    assert accuracy.difference == 0
