"""Records of the Every Eval Ever schema: each number is there or named, and its own validator takes them."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.types import Estimate
from benchmarks.reporting.headline import totals
from benchmarks.run import directory
from benchmarks.run.result import Result, encode
from benchmarks.suites.protocol import Scale
from benchmarks.suites.registry import SUITES
from gateway.__main__ import main
from gateway.features.formats import every_eval_ever as eee
from tests.benchmarks.test_recorded_results import scored as recorded
from tests.support.commands import scored

SOURCE = eee.Source(organization="Lab", relationship="third_party", model_id="org/model")
VALUES = st.floats(0, 100)


def record(result: Result) -> dict[str, Any]:
    """As it is in its file."""
    made = eee.record(result, encode(result), SOURCE, 1_800_000_000)
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def back(found: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    """A result of a record as the fields of the estimate that it is of."""
    config, details = found["metric_config"], found["score_details"]
    keys = {name: config["metric_parameters"].get(name) for name in ("axis", "group", "reference", "subset")}
    ends = details.get("uncertainty", {}).get("confidence_interval", {})
    numbers = {"value": details["score"], "lower": ends.get("lower"), "upper": ends.get("upper")}
    if "neutral" in config["metric_parameters"]:
        numbers = {name: config["metric_parameters"].get(name) for name in numbers}
    metric = config["metric_id"].removeprefix(f"{of['eval_library']['additional_details']['suite']}.")
    return {"metric": metric.removesuffix(".distance"), **keys, **numbers, "n": int(details["details"]["n"])}


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_every_number_is_there_or_named(suite: str) -> None:
    """The export reads back every estimate with interval and n, and names the undefined or unranked others."""
    result, _ = recorded(f"{suite}.corrected.sample")
    found = record(result)
    expected = []
    for one in totals(result):
        if one.value is not None and SUITES[suite].scales[one.metric].ideal is not None:
            has_ends = one.lower is not None and one.upper is not None
            ends = {"lower": one.lower if has_ends else None, "upper": one.upper if has_ends else None}
            keys = {name: getattr(one, name) for name in ("metric", "axis", "group", "reference", "subset")}
            expected.append({**keys, "value": one.value, **ends, "n": one.n})
    assert [back(one, found) for one in found["evaluation_results"]] == expected

    said = found["source_metadata"]["additional_details"]
    undefined = json.loads(said.get("undefined", "{}"))
    assert len(undefined) == sum(one.value is None for one in totals(result))
    sideless = [one.metric for one in totals(result) if SUITES[suite].scales[one.metric].ideal is None]
    assert said.get("without_better_side", "") == ", ".join(dict.fromkeys(sideless))
    names = [one["evaluation_result_id"] for one in found["evaluation_results"]]
    assert len(set(names)) == len(names)


def test_which_side_is_better() -> None:
    """More is better for accuracy, less for unread replies; a number whose neutral value is inside is its distance."""
    result, _ = recorded("stereoset.corrected.sample")
    sides = {
        one["metric_config"]["metric_id"]: one["metric_config"]["lower_is_better"]
        for one in record(result)["evaluation_results"]
    }
    assert sides == {
        "stereoset.lms": False,
        "stereoset.icat": False,
        "stereoset.ss.distance": True,
        "stereoset.unrelated_rate": True,
    }


@given(st.lists(VALUES, min_size=3, max_size=3), VALUES, st.floats(0, 1))
def test_the_interval_of_a_distance_holds_what_its_own_does(values: list[float], ideal: float, place: float) -> None:
    """Of whatever lies within the interval of a number, the distance lies within that of the distance."""
    lower, value, upper = sorted(values)
    one = Estimate(metric="m", value=value, lower=lower, upper=upper, n=5)
    found = eee._distance(one, Scale(low=0, high=100, ideal=ideal, reading="r"))
    assert found.value is not None
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= found.value <= found.upper
    within = min(max(lower + place * (upper - lower), lower), upper)
    assert found.lower - 1e-9 <= abs(within - ideal) <= found.upper + 1e-9
    assert found.upper <= max(abs(upper - ideal), abs(lower - ideal))


def export(path: Path, *more: str) -> int:
    return main(["audit", "export", str(path), "--to", "every-eval-ever", *more])


GIVEN = ("--organization", "Lab", "--relationship", "other")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record in the datastore's folders; the same result is the same file. What is missing or wrong is one line."""
    path, out = scored(tmp_path / "run"), tmp_path / "records"
    capsys.readouterr()
    for _ in range(2):
        assert export(path, "--out", str(out), *GIVEN, "--model-id", "org/m-1.0") == 0
    (file,) = out.rglob("*.json")
    assert file.parent == out / "data" / "stereoset" / "org" / "m-1.0"
    said = capsys.readouterr().out.splitlines()
    n_results = len(json.loads(file.read_text())["evaluation_results"])
    assert said == [f"{file}: {n_results} results, 0 undefined; no better side: refusal_rate"] * 2

    for arguments, words in (
        ((), "needs --out, --organization and --relationship"),
        (("--out", str(out), *GIVEN), f'"{directory.read_result(path).model}" is not an ORG/NAME'),
        (("--out", str(out), *GIVEN, "--model-id", "../.."), '"../.." is not an ORG/NAME'),
        (("--out", str(out), *GIVEN, "--model-id", "a/b/c"), '"a/b/c" is not an ORG/NAME'),
        (("--out", str(path / "run.json"), *GIVEN, "--model-id", "a/b"), "cannot be written"),
        (("--out", str(out), *GIVEN, "--tracking-uri", "x"), "--tracking-uri has no meaning"),
    ):
        assert export(path, *arguments) == 2
        err = capsys.readouterr().err
        assert words in err
        assert err.count("\n") == 1


VALIDATE = """
import sys
from pathlib import Path
from every_eval_ever.validator.validation_core import get_schema_version, validate_file
print(get_schema_version())
for name in sys.argv[2:]:
    file = Path(sys.argv[1]) / name
    report = validate_file(file, repo_path=name, run_semantic_checks=True)
    print(name, report.valid, report.errors, report.warnings)
"""


@pytest.mark.network
def test_its_own_validator_takes_them(tmp_path: Path) -> None:
    """The package's validator takes a record of each suite; it is unpacked, as its wheel asks for Python 3.12."""
    wheel = ("--no-deps", "--python-version", "3.12", "--only-binary=:all:", "every-eval-ever==0.3.*")
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(tmp_path))
    subprocess.run([*pip, *wheel], check=True, capture_output=True)
    (file,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(file).extractall(tmp_path / "package")
    runs = []
    for suite in sorted(SUITES):
        runs.append(tmp_path / suite)
        runs[-1].mkdir()
        directory.finish(runs[-1], recorded(f"{suite}.corrected.sample")[0], "")
    written = eee.write(runs, tmp_path, SOURCE, 1_800_000_000)
    names = [str(one.path.relative_to(tmp_path)) for one in written if one.path is not None]
    assert len(names) >= 10

    made = subprocess.run(
        [sys.executable, "-c", VALIDATE, str(tmp_path), *names],
        env={"PYTHONPATH": str(tmp_path / "package")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.splitlines() == [eee.SCHEMA, *(f"{name} True [] []" for name in names)]
