"""Verdicts of a gate as continuous integration reads them: Markdown for a comment, JUnit XML, SARIF 2.1.0."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from auditors.text.visible import visible_line
from benchmarks.figures.display import between, number
from benchmarks.reporting.gate import Verdict
from benchmarks.reporting.markdown import table

Checked = Sequence[tuple[Verdict, Path]]
"""Each verdict, with the result.json that it is about."""

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches the characters that XML 1.0 cannot write."""


def text(checked: Checked) -> str:
    lines = (f"{'pass' if v.passed else 'FAIL'}  {v.requirement}  ({v.where}: {_print(v)})" for v, _ in checked)
    return "".join(f"{visible_line(line)}\n" for line in lines)


def markdown(checked: Checked) -> str:
    """A heading that says how many hold, and a table, what failed first."""
    n_failed = sum(not verdict.passed for verdict, _ in checked)
    summary = f"{n_failed} of {len(checked)} checks fail" if n_failed else f"all {len(checked)} checks hold"
    rows: list[Sequence[object]] = [
        ("", "requirement", "model", "of", "found", "95 % interval", "n", "left out", "reason"),
        *(_row(verdict) for verdict, _ in sorted(checked, key=lambda pair: pair[0].passed)),
    ]
    return f"### Bias gate: {summary}\n\n{table(rows)}\n"


def junit(checked: Checked) -> str:
    """A test suite for each result, a test case for each verdict."""
    by_result: dict[Path, list[Verdict]] = {}
    for outcome, path in checked:
        by_result.setdefault(path, []).append(outcome)
    root = ET.Element("testsuites", {"name": "biasgate audit gate"} | _counts([verdict for verdict, _ in checked]))
    for path, verdicts in by_result.items():
        named = _xml(f"{verdicts[0].result.suite} of {verdicts[0].result.model}")
        suite = ET.SubElement(root, "testsuite", {"name": named} | _counts(verdicts))
        for verdict in verdicts:
            case = ET.SubElement(
                suite, "testcase", classname=named, name=_xml(f"{verdict.requirement} ({verdict.where})")
            )
            case.set("time", "0")
            case.set("file", _xml(path))
            if verdict.passed:
                ET.SubElement(case, "system-out").text = _xml(_describe(verdict))
            else:
                ET.SubElement(case, "failure", type="requirement", message=_xml(_print(verdict))).text = _xml(
                    _describe(verdict)
                )
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def sarif(checked: Checked) -> str:
    """Return a rule for each requirement, a result for each failed verdict: viewers make an alert of every result."""
    rules = list(dict.fromkeys(verdict.requirement for verdict, _ in checked))
    driver = {
        "name": "biasgate",
        "version": version("biasgate"),
        "rules": [{"id": rule, "shortDescription": {"text": f"Required: {rule}"}} for rule in rules],
    }
    results = [_result(v, path, rules.index(v.requirement)) for v, path in checked if not v.passed]
    run = {"tool": {"driver": driver}, "invocations": [{"executionSuccessful": True}], "results": results}
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=1).decode() + "\n"


FORMATS: Mapping[str, Callable[[Checked], str]] = {"text": text, "markdown": markdown, "junit": junit, "sarif": sarif}


def _print(verdict: Verdict) -> str:
    return verdict.reason or number(verdict.found, places=2)


def _describe(check: Verdict) -> str:
    held = "holds" if check.passed else "does not hold"
    about = f"{check.result.suite} of {check.result.model}: {check.requirement} {held} ({check.where}: {_print(check)})"
    if check.estimate is None or check.estimate.value is None:
        return about
    ends = f", 95 % interval {_ends(check)}" if check.estimate.lower is not None else ", no interval"
    value = number(check.estimate.value, places=2)
    return f"{about}; value {value}{ends}, n {check.estimate.n}, {check.estimate.n_excluded} left out"


def _ends(verdict: Verdict) -> str:
    return "" if verdict.estimate is None else between(verdict.estimate.lower, verdict.estimate.upper, 2)


def _row(verdict: Verdict) -> Sequence[object]:
    value = "undefined" if verdict.found is None else number(verdict.found, places=2)
    n, left_out = ("", "") if verdict.estimate is None else (verdict.estimate.n, verdict.estimate.n_excluded)
    state = "pass" if verdict.passed else "**FAIL**"
    return (
        state,
        verdict.requirement,
        verdict.result.model,
        verdict.where,
        value,
        _ends(verdict),
        n,
        left_out,
        verdict.reason or "",
    )


def _counts(verdicts: Sequence[Verdict]) -> dict[str, str]:
    failed = sum(not verdict.passed for verdict in verdicts)
    return {"tests": str(len(verdicts)), "failures": str(failed), "errors": "0", "skipped": "0", "time": "0"}


def _result(verdict: Verdict, path: Path, rule: int) -> dict[str, Any]:
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {
        "ruleId": verdict.requirement,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": _describe(verdict)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}],
        "partialFingerprints": {
            "requirementAndKeys/v1": f"{verdict.result.model}: {verdict.requirement} ({verdict.where})"
        },
    }


def _xml(words: object) -> str:
    return _NOT_XML.sub("\ufffd", str(words))
