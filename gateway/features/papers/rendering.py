"""Renders a paper's tables for terminal, page, CSV and LaTeX, all from the same struct."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures.display import number, signed
from benchmarks.figures.figure import Figure
from benchmarks.reporting.pages import template
from gateway.features.papers.recipe import Recipe
from gateway.features.papers.relations import spoken
from gateway.features.papers.tables import Cell, Label, Table

PUBLISHED = "published"


def shown(cell: Cell) -> str:
    """Return the number with its star and note; a dash where there is none."""
    text = (signed if cell.is_change else number)(cell.value, cell.decimals)
    return text + cell.mark + (f" ({cell.note})" if cell.note and cell.value is not None else "")


def ends(cell: Cell) -> str:
    """Return the interval; empty without one."""
    if cell.lower is None or cell.upper is None:
        return ""
    write = signed if cell.is_change else number
    return f"{write(cell.lower, cell.decimals)} to {write(cell.upper, cell.decimals)}"


def _name(label: Label) -> str:
    return f"{label.text} [{PUBLISHED}]" if label.origin == PUBLISHED else label.text


def terminal(table: Table) -> str:
    """Return the table in aligned columns; reasons are footnotes."""
    reasons: dict[str, int] = {}

    def words(cell: Cell) -> str:
        about = [shown(cell)]
        if cell.lower is not None:
            about.append(f"[{ends(cell)}]")
        if cell.n is not None:
            about.append(f"n={cell.n:,}")
        if cell.reason and cell.origin == "own":
            about.append(f"[{reasons.setdefault(cell.reason, len(reasons) + 1)}]")
        return " ".join(about)

    rows = [["", *map(_name, table.heads)]]
    rows += [[_name(row.label), *map(words, row.cells)] for row in table.rows]
    empty = [(row, cell) for row in table.rows for cell in row.cells if cell.value is None and cell.origin == "own"]
    notes = [*dict.fromkeys(f"{_name(row.label)}: {spoken(cell)}." for row, cell in empty), *table.notes]
    return [
        *lines,
        r"\bottomrule",
        r"\end{longtable}",
        *(rf"\noindent {tex(note)}\par" for note in notes),
        r"\endgroup",
    ]


def _n(cell: Cell) -> str:
    return "" if cell.n is None else f"$n={cell.n}$"


def page(recipe: Recipe, tables: Sequence[Table], figures: Sequence[Figure]) -> str:
    """Return one self-contained page of the tables and figures."""
    rendered: str = template("paper.html", Path(__file__).parent / "templates").render(
        recipe=recipe, tables=tables, figures_drawn=figures, shown=shown, ends=ends
    )
    return rendered
