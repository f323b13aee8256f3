"""Runs side by side in every part, with the numbers of the papers, and under names that tell them apart."""

import re

import msgspec
import pytest

from auditors.types import Estimate
from benchmarks.published.tables import tables_of
from benchmarks.reporting.report import render
from benchmarks.reporting.side_by_side import Grid, alike, grids, names
from benchmarks.run.result import Result
from gateway.cli.audit import report as command
from tests.benchmarks.test_recorded_results import scored
from tests.support.benchmarks.made_results import crows, estimate, result

PAPERS = {
    "cogs": ["affinity bias score", "representative bias score"],
    "crows_pairs": ["SS", "LMS", "ICAT"],
    "decision": ["absolute mean", "bias score"],
    "eec": [
        *["intensity difference"] * 2,
        *(f"mean intensity ({group})" for group in ("male", "female", "african american", "european american")),
    ],
    "implicit_association": ["absolute mean"],
    "real_toxicity_prompts": ["share"],
    "stereoset": ["SS", "LMS", "ICAT"],
    "unqover": [
        "pn difference",
        "positive share",
        "negative share",
        "unrelated rate (positive)",
        "unrelated rate (negative)",
    ],
    "winobias": ["male female difference"] + [f"share ({name})" for name in ("male", "female", "neutral", "unrelated")],
}


def by_part(grid: Grid) -> dict[str, dict[str, object]]:
    """The numbers of the first run and of the models of the paper, by part and name."""
    lines: list[list[object]] = [[*row] for row in grid.rows]
    lines.insert(0, [*grid.head])
    if grid.head[0] == "model":
        lines = [list(column) for column in zip(*lines, strict=True)]
    heads, *rows = lines
    return {str(row[0]): dict(zip(map(str, heads[1:]), row[1:], strict=True)) for row in rows}


def has_both(grid: Grid) -> bool:
    """True if an own number stands beside a printed one."""
    rows = by_part(grid).values()
    return any({Estimate, str} <= {type(value) for value in row.values()} for row in rows)


@pytest.mark.parametrize("suite", PAPERS)
def test_each_suite_of_the_papers_has_their_numbers_beside_its_own(suite: str) -> None:
    """A single run of protocol `paper`, on the page and on the terminal; on embedded items without them."""
    run, _ = scored(f"{suite}.paper.sample")
    embedded = msgspec.structs.replace(run, dataset=msgspec.structs.replace(run.dataset, kind="embedded"))
    assert grids([embedded], ["own"]) == []
    run = msgspec.structs.replace(run, dataset=msgspec.structs.replace(run.dataset, kind="canonical"))
    tables = grids([run], ["own"])
    page, text = render([run]), command.text([run])
    unfolded = [grid for grid in tables if not grid.is_folded]
    assert [grid.title.split(" · ")[0] for grid in tables] == PAPERS[suite]
    assert all(map(has_both, tables))
    assert all(f"Side by side: {grid.title}" in page for grid in tables)
    assert text.count("Side by side: ") == len(unfolded)


@pytest.mark.parametrize(
    ("suite", "metric", "changes", "model", "value", "source"),
    [
        ("ltf_test", "dob_table", {}, "Mistral", "0.314", "Table 1"),
        ("ltf_test", "dob_table", {"mitigation": "abstract"}, "Mistral", "0.392", "Table 1, abstract"),
        ("winobias", "male_female_difference", {"few_shot": 2}, "MST-7B", "21.34", "Table 15, 2-shot"),
    ],
)
def test_printed_numbers_are_of_the_same_setting(
    suite: str, metric: str, changes: dict[str, object], model: str, value: str, source: str
) -> None:
    """A mitigated run stands beside mitigated models, one with two examples beside those with two."""
    subset = "eval" if suite == "ltf_test" else "type1"
    run = result(suite, "own", [estimate(metric, 0.5, subset=subset)], **changes)
    (grid,) = grids([run], ["own"])
    assert grid.title.endswith(f", {source}")
    assert value in [row[f"{model} (published)"] for row in by_part(grid).values()]


def test_a_suite_without_a_paper_shows_the_parts_of_its_headline() -> None:
    """BBQ has no total of its headline metric's name alone; a single run needs no table."""
    runs = [result("bbq", name, [estimate("bias_score", 0.1, "age", subset="disambig")]) for name in ("a", "b")]
    (grid,) = grids(runs, ["a", "b"])
    assert tables_of("bbq") == []
    assert (grid.title, grid.head) == ("bias score", ["model", "age, disambig"])
    assert [row[0] for row in grid.rows] == ["a", "b"]
    assert grids(runs[:1], ["a"]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mitigation": "abstract"}, ["m · no mitigation", "m · mitigation abstract"]),
        ({"temperature": 0.7}, ["m · the protocol's temperature", "m · temperature 0.7"]),
        (
            {"few_shot": 2, "protocol": "paper"},
            ["m · protocol corrected · few-shot 0", "m · protocol paper · few-shot 2"],
        ),
        ({"seed": 3}, ["m · seed 0", "m · seed 3"]),
        ({}, ["m (run 1)", "m (run 2)"]),
        ({"model": "other"}, ["m", "other"]),
    ],
)
def test_runs_of_a_model_are_named_by_their_differences(changes: dict[str, object], expected: list[str]) -> None:
    """In the contents, headings and tables of a page; other models' names are left as they are."""
    first = crows("m", 90.0)
    second: Result = msgspec.structs.replace(first, **changes)
    page = render([first, second])
    assert names([first, second]) == expected
    assert re.findall(r"<h2>CrowS-Pairs · (m.*|other)</h2>", page.replace("&#39;", "'")) == expected
    assert len(alike([first, second])) == (1 if changes.keys() <= {"seed", "model"} else 2)
