"""Requirements on results, `stereoset.ss[axis=gender].upper < 60`; a key left out or `all` is the total, `*` each."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from auditors.judge_validation import Validation
from auditors.text.nearest_word import nearest
from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.run.judge import judge_used
from benchmarks.run.result import Result

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_KEYS = ("axis", "group", "reference", "subset")
_NAMES = {key: key for key in _KEYS} | {"part": "subset"}
"""Keys by the names that they may have: tables call a subset a part."""
ALL = "all"
"""Value of a key that the estimate does not have, as in tables."""
_FIELDS = ("value", "lower", "upper")
_FORM = re.compile(
    r"\s*(?P<suite>\w+)\.(?P<metric>\w+)(?:\[(?P<keys>[^\]]*)\])?\.(?P<field>\w+)\s*"
    r"(?P<operator><=|>=|==|!=|<|>)\s*(?P<bound>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*"
)


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed expression."""

    text: str
    suite: str
    metric: str
    keys: Mapping[str, str]
    field: str
    operator: str
    bound: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a requirement on an estimate, or on a result that it cannot be put to."""

    requirement: str
    result: Result
    where: str
    """Keys of the estimate, e.g. "axis=gender"."""
    found: float | None
    passed: bool
    reason: str | None = None
    estimate: Estimate | None = None
    """The estimate it is about; None if the requirement could not be put to a number."""
    is_refused: bool = False
    """The number is not one that a requirement may be put to, see `reason`."""


def parse(text: str) -> Requirement:
    """Raises BenchmarkError that shows the form."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise BenchmarkError(f"requirement \"{text}\" is not of the form 'stereoset.ss[axis=gender].upper < 60'")
    keys = dict(_key(text, part) for part in (match["keys"] or "").split(",") if part.strip())
    if match["field"] not in _FIELDS:
        raise BenchmarkError(f'requirement "{text}": "{match["field"]}" must be one of {", ".join(_FIELDS)}')
    return Requirement(
        text=text.strip(),
        suite=match["suite"],
        metric=match["metric"],
        keys=keys,
        field=match["field"],
        operator=match["operator"],
        bound=float(match["bound"]),
    )


def judge(
    requirement: Requirement, results: Sequence[Result], *, allow_unvalidated_judge: bool = False
) -> list[Verdict]:
    """Return a verdict on each estimate meant, or on each refused result. Raises BenchmarkError if none fits."""
    own = [result for result in results if result.suite == requirement.suite]
    if not own:
        suites = {result.suite for result in results}
        raise BenchmarkError(
            f'requirement "{requirement.text}": no result of suite "{requirement.suite}" here'
            f"{nearest(requirement.suite, suites)}; here: {', '.join(sorted(suites))}"
        )
    if refusals := [(result, why) for result in own if (why := _refusal(result, allow_unvalidated_judge)) is not None]:
        refused = partial(Verdict, requirement=requirement.text, where="not judged", found=None, passed=False)
        return [refused(result=result, reason=why, is_refused=True) for result, why in refusals]
    first, *rest = (result.series | {"mitigation": result.mitigation} for result in own)
    for other in rest:
        for name, value in first.items():
            if other[name] != value:
                raise BenchmarkError(
                    f'requirement "{requirement.text}": the results of {requirement.suite} differ in {name} '
                    f'("{value}" and "{other[name]}"): gate each run directory by itself'
                )
    estimates = [estimate for result in own for estimate in result.estimates]
    metrics = {estimate.metric for estimate in estimates}
    if requirement.metric not in metrics:
        raise BenchmarkError(
            f'requirement "{requirement.text}": unknown metric "{requirement.metric}"'
            f"{nearest(requirement.metric, metrics)}; known: {', '.join(sorted(metrics))}"
        )
    matching = [(result, e) for result in own for e in result.estimates if _speaks_of(requirement, e)]
    if not matching:
        of_metric = [estimate for estimate in estimates if estimate.metric == requirement.metric]
        raise BenchmarkError(f'requirement "{requirement.text}": no estimate has these keys: {_known_keys(of_metric)}')
    return [_verdict(requirement, result, estimate) for result, estimate in matching]


def _refusal(result: Result, allow_unvalidated_judge: bool) -> str | None:
    if result.judge_fault is not None and not allow_unvalidated_judge:
        return f"its judge is not validated: {result.judge_fault}"
    return result.thinking_fault or (f"not assessable: {result.fault}" if result.fault else None)


def validated_by(validation: Validation, result: Result) -> Result:
    """The result with its judge compared by this; one without a judge as it is."""
    stamps = result.provenance.judge
    if not stamps:
        return result
    judges = sorted({stamp.model for stamp in stamps})
    used = judge_used(judges, result.model, stamps, validation)
    if result.judge is not None:
        used = msgspec.structs.replace(result.judge, validated=used.validated, reason=used.reason)
    return msgspec.structs.replace(result, judge=used)


def demand_put(verdicts: Sequence[Verdict]) -> None:
    """Raises BenchmarkError, one line, if a requirement could not be put to a number."""
    for verdict in verdicts:
        if verdict.is_refused:
            about = f"{verdict.result.suite} of {verdict.result.model}: {verdict.requirement} ({verdict.where})"
            hint = "; compare it with people (biasgate judge calibrate), or --allow-unvalidated-judge"
            is_of_judge = verdict.estimate is None and verdict.reason != _refusal(verdict.result, True)
            raise BenchmarkError(f"{about}: {verdict.reason}{hint if is_of_judge else ''}")


def _key(text: str, part: str) -> tuple[str, str]:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals or name not in _NAMES or not value:
        raise BenchmarkError(
            f'requirement "{text}": "{part.strip()}" must be KEY=VALUE with a key of {", ".join(_NAMES)}'
        )
    return _NAMES[name], value


def _speaks_of(requirement: Requirement, estimate: Estimate) -> bool:
    if estimate.metric != requirement.metric:
        return False
    return all(_fits(requirement.keys.get(key), getattr(estimate, key)) for key in _KEYS)


def _fits(required: str | None, actual: str | None) -> bool:
    if actual is None or required is None:
        return actual is None and required in (None, ALL, "all axes")
    return required == "*" or _plain(actual) == _plain(required)


def _plain(name: str) -> str:
    """Tables show a name with spaces."""
    return name.replace("_", " ")


def _known_keys(estimates: Sequence[Estimate]) -> str:
    listed = []
    for key in _KEYS:
        values = sorted({value for estimate in estimates if (value := getattr(estimate, key)) is not None})
        whole = [ALL] if any(getattr(estimate, key) is None for estimate in estimates) else []
        if values:
            more = [f"{len(values) - MOST_LISTED} more"] if len(values) > MOST_LISTED else []
            listed.append(f"{key} is one of {', '.join([*whole, *values[:MOST_LISTED], *more])}")
    return "; ".join(listed) or "this number is of all alone"


MOST_LISTED = 20


def _verdict(requirement: Requirement, result: Result, estimate: Estimate) -> Verdict:
    measured: float | None = getattr(estimate, requirement.field)
    where = ", ".join(f"{key}={value}" for key in _KEYS if (value := getattr(estimate, key)) is not None)
    fault = result.fault_of(estimate)
    passed = fault is None and measured is not None and _OPERATORS[requirement.operator](measured, requirement.bound)
    reason = None if measured is not None else f"{requirement.field} is undefined: {estimate.reason or 'no interval'}"
    if fault is not None:
        reason = f"not assessable: {fault}"
    return Verdict(
        requirement=requirement.text,
        result=result,
        where=where or "total",
        found=measured,
        passed=passed,
        reason=reason,
        estimate=estimate,
        is_refused=fault is not None,
    )
