"""A judge that was not compared with people on its question is marked wherever its numbers go."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.judge_validation import Validation
from auditors.types import JudgeStamp
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.gate import demand_put, judge, parse, validated_by
from benchmarks.reporting.report import render
from benchmarks.run.judge import ITSELF, NOT_GIVEN, judge_used, read
from benchmarks.run.result import Result
from tests.benchmarks.test_recorded_results import scored

ASKED = JudgeStamp(model="j", prompt_sha256="a" * 64, thinking="off")
GOOD = Validation(
    judge_model="j",
    prompt_sha256="a" * 64,
    n=200,
    agreement=0.9,
    kappa=0.7,
    kappa_lower=0.6,
    kappa_upper=0.8,
    labels_sha256="b" * 64,
    thinking="off",
)


def good_but(**changes: Any) -> Validation:
    return msgspec.structs.replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("judges", "validation", "reason"),
    [
        (["j"], GOOD, None),
        (["j"], None, NOT_GIVEN),
        (["m"], good_but(judge_model="m"), ITSELF),
        (["j", "m"], GOOD, ITSELF),
        (["j", "k"], GOOD, 'the comparison with people is of the judge "j"'),
        (["j"], good_but(judge_model="k"), 'the comparison with people is of the judge "k"'),
        (["j"], good_but(prompt_sha256="c" * 64), "the comparison with people is of another question"),
        (["j"], good_but(thinking=None), "does not say whether the judge thought: make it again"),
        (["j"], good_but(thinking="on"), "is of the judge with thinking on, the run asked it with thinking off"),
        (["j"], good_but(thinking="budget=64"), "thinking budget=64, the run asked it with thinking off"),
        (["j"], good_but(n=99), "on 99 judgements, fewer than 100"),
        (["j"], good_but(kappa_lower=0.39), "kappa 0.70, lower end 0.39, needed 0.4"),
        (["j"], good_but(kappa=None, kappa_lower=None), "kappa undefined, needed 0.4"),
    ],
)
def test_who_is_validated(judges: list[str], validation: Validation | None, reason: str | None) -> None:
    """Only another model than the audited one, on the same question, on enough judgements, that agrees with people."""
    found = judge_used(judges, "m", [ASKED], validation)

    assert found.validated is (reason is None)
    assert found.reason is None if reason is None else reason in (found.reason or "")


@pytest.mark.parametrize(
    ("asked", "compared", "reason"),
    [
        ("v1", ("v1",), None),
        (None, ("v1",), None),
        ("v2", (), None),
        ("v2", ("v1",), "the model behind its name changed: compared was v1, the run had v2"),
    ],
)
def test_a_judge_that_changed_under_its_name(asked: str | None, compared: tuple[str, ...], reason: str | None) -> None:
    """Where both servers said what they serve and it differs; one that says nothing shows no change."""
    stamp = msgspec.structs.replace(ASKED, fingerprint=asked)

    assert judge_used(["j"], "m", [stamp], good_but(fingerprints=compared)).reason == reason


def test_a_run_that_does_not_say() -> None:
    """A record of before thinking was kept is of no known judge."""
    stamp = msgspec.structs.replace(ASKED, thinking=None)

    assert judge_used(["j"], "m", [stamp], GOOD).reason == "the run does not say whether its judge thought"


def result_of(validation: Validation | None) -> Result:
    result, _ = scored("decision.corrected.sample")
    [stamp] = result.provenance.judge
    stamp = msgspec.structs.replace(stamp, thinking="off")  # the recording is older than this is kept
    used = judge_used([stamp.model], result.model, [stamp], validation)
    return msgspec.structs.replace(result, judge=used)


def test_it_is_marked_and_refused() -> None:
    """A recorded run says that its judge is not validated: in the result, in the report, and in the gate's refusal."""
    result = result_of(None)
    requirement = parse("decision.stereotype_rate.value < 101")

    assert result.judge is not None
    assert not result.judge.validated
    assert "Judge not validated" in render([result])
    with pytest.raises(
        BenchmarkError, match=r"decision of simulated: decision.*its judge is not validated.*--allow-unvalidated"
    ):
        demand_put(judge(requirement, [result]))


def test_a_validated_judge_carries_no_mark() -> None:
    """The same run with a comparison of its judge on its question."""
    [stamp] = result_of(None).provenance.judge
    result = result_of(good_but(judge_model=stamp.model, prompt_sha256=stamp.prompt_sha256))

    assert "Judge not validated" not in render([result])
    demand_put(judge(parse("decision.stereotype_rate.value < 101"), [result]))


def test_an_old_result_counts_as_not_validated() -> None:
    """A result without the mark was judged all the same."""
    old = msgspec.structs.replace(result_of(GOOD), judge=None)

    assert old.judge_fault is not None
    assert scored("stereoset.corrected.sample")[0].judge_fault is None


@pytest.mark.parametrize("content", [b"{}", b"\xff", b'{"schema": 1}', None])
def test_a_file_that_is_none(content: bytes | None, tmp_path: Path) -> None:
    """One line that names the file and says what to give."""
    path = tmp_path / "validation.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BenchmarkError, match=r"validation\.json: .*judge calibrate --out wrote"):
        read(path)


def test_a_gate_takes_a_comparison_made_later() -> None:
    """In place of what the run was given; a run without a judge stays as it is."""
    result = result_of(None)
    [stamp] = result.provenance.judge
    stamp = msgspec.structs.replace(stamp, thinking="off")
    result = msgspec.structs.replace(result, provenance=msgspec.structs.replace(result.provenance, judge=[stamp]))
    good = good_but(judge_model=stamp.model, prompt_sha256=stamp.prompt_sha256)
    unjudged = scored("stereoset.corrected.sample")[0]

    assert (result.judge_fault, validated_by(good, result).judge_fault) == (NOT_GIVEN, None)
    assert "fewer than 100" in (validated_by(msgspec.structs.replace(good, n=99), result).judge_fault or "")
    assert validated_by(good, unjudged) is unjudged
