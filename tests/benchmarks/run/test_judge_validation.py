"""A judge that was not compared with people on its question is marked wherever its numbers go."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.types import JudgeStamp
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.gate import demand_validated, parse
from benchmarks.reporting.report import render
from benchmarks.run.judge_validation import ITSELF, NOT_GIVEN, Validation, judge_used, read
from benchmarks.run.result import Result
from tests.benchmarks.test_recorded_results import scored

ASKED = JudgeStamp(model="j", prompt_sha256="a" * 64)
GOOD = Validation(
    judge_model="j",
    prompt_sha256="a" * 64,
    n=200,
    agreement=0.9,
    kappa=0.7,
    kappa_lower=0.6,
    kappa_upper=0.8,
    labels_sha256="b" * 64,
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


def result_of(validation: Validation | None) -> Result:
    result, _ = scored("decision.corrected.sample")
    [stamp] = result.provenance.judge
    used = judge_used([stamp.model], result.model, [stamp], validation)
    return msgspec.structs.replace(result, judge=used)


def test_it_is_marked_and_refused() -> None:
    """A recorded run says that its judge is not validated: in the result, in the report, and in the gate's refusal."""
    result = result_of(None)
    requirement = parse("decision.stereotype_rate.value < 101")

    assert result.judge is not None
    assert not result.judge.validated
    assert "Judge not validated" in render([result])
    with pytest.raises(BenchmarkError, match=r"decision of simulated: its judge is not validated.*--allow-unvalidated"):
        demand_validated([requirement], [result])
    demand_validated([parse("stereoset.ss.value < 101")], [result])


def test_a_validated_judge_carries_no_mark() -> None:
    """The same run with a comparison of its judge on its question."""
    [stamp] = result_of(None).provenance.judge
    result = result_of(good_but(judge_model=stamp.model, prompt_sha256=stamp.prompt_sha256))

    assert "Judge not validated" not in render([result])
    demand_validated([parse("decision.stereotype_rate.value < 101")], [result])


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
