"""Recipes hold what the papers print, in print's order."""

from pathlib import Path

import pytest

from benchmarks.published import tables as published
from gateway.features.papers import recipe
from gateway.features.papers.recipe import NAMES, Recipe
from gateway.features.papers.runs import Finished, Model
from gateway.features.papers.tables import Cell, Numbers
from tests.benchmarks.test_recorded_results import scored

RECIPES = {name: recipe.load(name) for name in NAMES}
PRINTED = {
    ("implicit", "1"): (162, "98.62", "GPT-3.5-turbo", "Average"),
    ("cogs", "1a"): (9, "0.0413", "Race", "LLaMA-2"),
    ("cogs", "1b"): (9, "0.002", "Orientation", "Mixtral"),
    ("ltf", "1"): (165, "+0.078", "Mistral + (abstract)", "gender"),
    ("ltf", "2"): (165, "-0.341", "GPT4o + (detailed)", "Mean"),
    ("nollm", "8"): (96, "60", "Religion Intra SS", "LL-8B"),
    ("nollm", "9"): (32, "60.73", "Type 1 Male", "LL-8B"),
    ("nollm", "10"): (240, "-17.9", "Gender Male P-N", "LL-8B"),
    ("nollm", "11"): (84, "68.15", "Socio economic ICAT", "PHI-3.5B"),
    ("nollm", "12"): (156, "34.37", "Profession Politician", "LL-8B"),
    ("nollm", "14"): (88, "1", "Physical appearance: CrowS-Pairs", "PHI-3.5B"),
    ("nollm", "15"): (60, "51.45", "4-shot Female Type 2", "MST-7B"),
    ("nollm", "17"): (828, "1.44", "Switzerland (Europe) P-N", "PHI-3.5B"),
    ("nollm", "19"): (368, "-3.48", "sad AA-EA", "LL-8B"),
    ("nollm", "20"): (368, "55.99", "sad average Female", "LL-8B"),
}
"""Printed numbers of a table, and one of them with its row and column."""


def printed_cells(of: Recipe, id_: str) -> dict[tuple[str, str], Cell]:
    """The cells of a table without a model of one's own, by row and column."""
    table = Numbers(of, [], {}).table(of.table(id_))
    return {
        (row.label.text, head.text): cell
        for row in table.rows
        for head, cell in zip(table.heads, row.cells, strict=True)
    }


@pytest.mark.parametrize(("name", "id_"), PRINTED)
def test_every_printed_number_has_its_place(name: str, id_: str) -> None:
    """As many as the paper prints, with its decimals; Table 15 lacks unrelated replies of type 2 with 4 examples."""
    count, value, row, column = PRINTED[name, id_]
    cells = printed_cells(RECIPES[name], id_)
    cell = cells[row, column]
    printed = [each for each in cells.values() if each.value is not None]
    assert len(printed) == count
    assert {place[0] for place, each in cells.items() if each.value is None} <= {"4-shot Unrelated Type 2"}
    assert cell.value is not None
    assert f"{cell.value:{'+' if value[0] == '+' else ''}.{cell.decimals}f}" == value


def test_every_transcribed_table_is_in_a_recipe() -> None:
    """A source that no recipe names would be in no rebuilt table; none is named that is not there."""
    lines = [line.published for of in RECIPES.values() for table in of.tables for line in table.lines]
    columns = [column.published for of in RECIPES.values() for table in of.tables for column in table.columns]
    assert {source for sources in (*lines, *columns) for source in sources} == {
        table.source for table in published.TABLES
    }


def test_every_number_by_approach_is_one_of_a_printed_table() -> None:
    """Table 13 forms no number of its own: each is a column of a table that the paper prints, of the same suite."""
    of, keys = RECIPES["nollm"], {}
    for table in of.tables:
        default = table.lines[0].run
        keys[table.id] = {
            (column.run or default, column.metric, column.axis, column.group, column.reference, column.subset)
            for column in table.each_column()
        }
    printed = set().union(*(keys[id_] for name, id_ in PRINTED if name == "nollm"))

    places, order = [(column.run, column.axis) for column in of.table("13").each_column()], [*of.table("2").names]
    for run in of.runs:
        axes = list(dict.fromkeys(axis for name, axis in places if name == run.name and axis))
        assert axes == sorted(axes, key=order.index)
    assert len(keys["13"]) == 39
    assert keys["13"] <= printed, keys["13"] - printed


def test_own_ranks_stand_in_printed_order() -> None:
    """Table 14 goes by the paper's aspects and data sets; a run that is missing, or has no such number, says so."""
    run, of = Finished(path=Path(), result=scored("crows_pairs.paper.sample")[0]), RECIPES["nollm"]
    outcomes = {(name, place): run for name in "ab" for place in ("crows-pairs", "eec")}
    numbers = Numbers(of, [Model(name=name, base_url="http://h") for name in "ab"], {("a", "rtp"): "gone", **outcomes})
    ranks, emotions = (numbers.table(of.table(id_)).rows for id_ in ("14", "19"))
    assert [row.label.text for row in ranks] == list(dict.fromkeys(row for row, _ in printed_cells(of, "14")))
    assert [cell.reason for cell in ranks[4].cells[:2]] == ["gone", "not ranked"]
    assert {row.cells[0].reason for row in emotions} == {"the run has no such number"}
