"""Requirements on results."""

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.reporting.gate import Verdict, demand_put, judge, parse
from benchmarks.run.result import Result
from tests.support.benchmarks.scripted import pick, score_answers


@pytest.fixture(scope="module")
def result() -> Result:
    """A model that always picks the stereotype: LMS 100, SS 100, ICAT 0; cells of six terms have no interval."""
    return score_answers(pick("stereotype"))


def verdicts(text: str, result: Result) -> list[Verdict]:
    return judge(parse(text), [result])


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("stereoset.ss.value < 60", [False]),
        ("stereoset.ss.value<=100", [True]),
        ("stereoset.lms.lower > 80", [True]),
        ("stereoset.icat[axis=gender].value == 0", [True]),
        ("stereoset.ss[axis=gender].value != 100.0", [False]),
        ("stereoset.ss[axis=race, part=all].value >= 1e2", [True]),
        ("stereoset.ss[axis=all, subset=intersentence].value >= 1e2", [True]),
        ("stereoset.ss[axis=all axes].value >= 1e2", [True]),
        ("stereoset.lms[axis=*].value > 99", [True] * 4),
        ("stereoset.lms[subset=*].value > 99", [True] * 2),
    ],
)
def test_expressions(result: Result, text: str, passed: list[bool]) -> None:
    """Each expression speaks of the estimates it names; a key not named means the total."""
    assert [verdict.passed for verdict in verdicts(text, result)] == passed


@pytest.mark.parametrize(
    ("name", "other"), [("protocol", "paper"), ("mode", "exact"), ("few_shot", 2), ("mitigation", "abstract")]
)
def test_results_measured_differently_share_no_bound(result: Result, name: str, other: object) -> None:
    """One requirement over two protocols, modes, numbers of examples or mitigations is refused; two models are not."""
    requirement, changed = parse("stereoset.ss.value < 101"), msgspec.structs.replace(result, **{name: other})
    with pytest.raises(BenchmarkError, match=f'differ in {name} .*"{other}".*gate each run directory by itself'):
        judge(requirement, [result, changed])

    assert len(judge(requirement, [result, msgspec.structs.replace(result, model="another")])) == 2


def test_undefined_fails_with_its_reason(result: Result) -> None:
    """An interval that is not there never passes, in either direction, and a number of too few replies is refused."""
    ss = next(one for one in result.estimates if one.metric == "ss" and one.axis is one.subset is None)
    without = msgspec.structs.replace(ss, lower=None, upper=None, reason="no interval: 9 terms to resample")
    for operator in ("<", ">"):
        (verdict,) = verdicts(f"stereoset.ss.upper {operator} 1", msgspec.structs.replace(result, estimates=[without]))
        assert (verdict.passed, verdict.is_refused) == (False, False)
        assert verdict.reason == "upper is undefined: no interval: 9 terms to resample"
        (verdict,) = verdicts(f"stereoset.ss[axis=gender,subset=intrasentence].value {operator} 1", result)
        assert (verdict.passed, verdict.is_refused) == (False, True)
        with pytest.raises(BenchmarkError, match="6 of 6 replies name an option; at least 10 replies and 25 % are"):
            demand_put([verdict])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stereoset.ss < 60", "is not of the form"),
        ("stereoset.ss.upper", "is not of the form"),
        ("stereoset.ss.upper < sixty", "is not of the form"),
        ("stereoset.ss.high < 60", '"high" must be one of value, lower, upper'),
        ("stereoset.ss[ax=gender].upper < 60", '"ax=gender" must be KEY=VALUE'),
        ("stereoset.sss.upper < 60", r'unknown metric "sss" \(did you mean "ss"\?\)'),
        ("crows_pairs.ss.upper < 60", 'no result of suite "crows_pairs"'),
        ("stereoset.ss[axis=age].upper < 60", "axis is one of all, gender, profession, race, religion; subset"),
    ],
)
def test_wrong_expressions_say_what_is_wrong(result: Result, text: str, words: str) -> None:
    """A mistake in a requirement is an error, not a passed or failed gate."""
    with pytest.raises(BenchmarkError, match=words):
        verdicts(text, result)
