"""Renders a paper's tables for terminal, page, CSV and LaTeX, all from the same struct."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditors.text.visible import visible_line
from benchmarks.figures.display import number, signed
from benchmarks.figures.figure import Figure
from benchmarks.reporting.pages import standalone_svg, template
from gateway.features.papers.drawings import spoken
from gateway.features.papers.recipe import Drawing, Recipe
from gateway.features.papers.tables import Cell, Label, Table
from gateway.terminal.tables import aligned

PUBLISHED = "published"
LONGEST_IN_CELL = 50
"""Characters of a reason in a cell of the page; a longer reason is a note below the table."""


def formatted(cell: Cell) -> str:
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
        about = [formatted(cell)]
        if cell.lower is not None:
            about.append(f"[{ends(cell)}]")
        if cell.n is not None:
            about.append(f"n={cell.n:,}")
        if cell.reason and cell.origin == "own":
            about.append(f"[{reasons.setdefault(cell.reason, len(reasons) + 1)}]")
        return " ".join(about)

    groups = [row.label.group for row in table.rows] if any(row.label.group for row in table.rows) else []
    rows = [["", *map(_name, table.heads)]]
    rows += [[_name(row.label), *map(words, row.cells)] for row in table.rows]
    if groups:
        rows = [[group, *row] for group, row in zip(["", *groups], rows, strict=True)]
    notes = [f"[{place}] {reason}" for reason, place in reasons.items()]
    title = visible_line(f"Table {table.id}: {table.title}")
    return "\n".join([title, aligned(rows), *map(visible_line, [*notes, *table.notes])])


COLUMNS = ("row", "group", "column", "value", "lower", "upper", "n", "mark", "note", "origin", "reason")


def as_csv(table: Table) -> str:
    """Return a line for each cell. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in table.rows:
        for head, cell in zip(table.heads, row.cells, strict=True):
            numbers = ["" if value is None else value for value in (cell.value, cell.lower, cell.upper, cell.n)]
            texts = [_inert(text) for text in (row.label.text, row.label.group, head.text)]
            writer.writerow([*texts, *numbers, cell.mark, _inert(cell.note), cell.origin, _inert(cell.reason or "")])
    return file.getvalue()


def _inert(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


_TEX = {
    "\\": r"\textbackslash{}",
    "−": "$-$",
    "–": "--",
    "ρ": r"$\rho$",
    "±": r"$\pm$",
    "’": "'",
    "“": "``",
    "”": "''",
    "·": r"$\cdot$",
    "\u200b": "{}",
    "^": r"\^{}",
    "~": r"\~{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\textquotedbl{}",
    "*": r"$^{*}$",
    "[": "{[}",
    "]": "{]}",
} | {letter: f"\\{letter}" for letter in "{}$&#%_"}


def tex(text: str) -> str:
    """Return the text so that LaTeX prints it and nothing in it is a command; unknown letters by their code."""
    text = re.sub("-(?=-)", "-\u200b", text)  # LaTeX draws hyphens that join as a dash
    return "".join(_TEX.get(letter) or (letter if " " <= letter <= "~" else f"U+{ord(letter):04X}") for letter in text)


WIDE = 9
"""Columns of a table for which the sheet of the LaTeX document is A3."""


def latex(recipe: Recipe, tables: Sequence[Table], *, is_plain: bool = False) -> str:
    """Return a document with every table (booktabs), whose tables can be taken into a paper as they are; if plain,
    without intervals and n.
    """
    sheet = "a3paper" if any(len(table.heads) >= WIDE for table in tables) else "a4paper"
    head = [
        r"\documentclass[10pt]{article}",
        r"\usepackage[T1]{fontenc}",
        rf"\usepackage[{sheet},landscape,margin=12mm]{{geometry}}",
        r"\usepackage{booktabs,longtable}",
        r"\begin{document}",
        rf"\noindent {tex(recipe.paper)}, {tex(recipe.url)}: rebuilt by biasgate.\par",
    ]
    lines = [line for table in tables for line in _latex_table(table, is_plain)]
    return "\n".join([*head, *lines, r"\end{document}", ""])


def _latex_table(table: Table, is_plain: bool) -> list[str]:
    """Return the lines of a table: each row with its numbers, below them their intervals, then their n."""
    rows = [
        rf"\medskip\noindent Table {tex(table.id)}: {tex(table.title)}",
        r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
    ]
    rows += [rf"\begin{{longtable}}{{l{'r' * len(table.heads)}}}", r"\toprule"]
    rows += [" & ".join(["", *(tex(_name(head)) for head in table.heads)]) + r"\\", r"\midrule", r"\endhead"]
    for row, before in zip(table.rows, [None, *table.rows], strict=False):
        if row.label.group and (before is None or row.label.group != before.label.group):
            rows.append(rf"\multicolumn{{{len(table.heads) + 1}}}{{l}}{{\textbf{{{tex(row.label.group)}}}}}\\*")
        lines = [" & ".join([tex(_name(row.label)), *(tex(formatted(cell)) for cell in row.cells)])]
        counts = ["" if cell.n is None else f"$n={cell.n}$" for cell in row.cells]
        for words in ([tex(ends(cell)) for cell in row.cells], counts):
            if any(words) and not is_plain:
                lines.append(" & ".join(["", *(rf"\tiny {word}" for word in words)]))
        rows += [*(line + r"\\*" for line in lines[:-1]), lines[-1] + r"\\"]
    empty: dict[str, dict[str, None]] = {}
    for row in table.rows:
        for cell in (cell for cell in row.cells if cell.value is None and cell.origin == "own"):
            empty.setdefault(spoken(cell), {})[_name(row.label)] = None
    notes = [*(f"{', '.join(names)}: {reason}." for reason, names in empty.items()), *table.notes]
    return [*rows, r"\bottomrule", r"\end{longtable}", *(rf"\noindent {tex(note)}\par" for note in notes), r"\endgroup"]


def long_reasons(table: Table) -> dict[str, int]:
    """Return the reasons that are too long for their cells, with the numbers of their notes."""
    own = (cell.reason for row in table.rows for cell in row.cells if cell.origin == "own" and cell.reason)
    return {reason: at for at, reason in enumerate(dict.fromkeys(r for r in own if len(r) > LONGEST_IN_CELL), 1)}


def page(recipe: Recipe, tables: Sequence[Table], drawings: Sequence[tuple[Drawing, Sequence[Figure]]]) -> str:
    """Return one self-contained page of the tables and figures."""
    rendered: str = template("paper.html", Path(__file__).parent / "templates").render(
        recipe=recipe, tables=tables, drawings=drawings, formatted=formatted, ends=ends, long_reasons=long_reasons
    )
    return rendered


def pictures(drawings: Sequence[tuple[Drawing, Sequence[Figure]]]) -> Iterator[tuple[str, str]]:
    """Yield a file name, without suffix, and the SVG of each picture of the figures."""
    for drawing, figures in drawings:
        drawn = [picture for figure in figures for picture in figure.pictures]
        name = drawing.id.replace(", ", "-").replace(" ", "-")
        for number_, picture in enumerate(drawn, 1):
            yield (name if len(drawn) == 1 else f"{name}-{number_}"), standalone_svg(picture.svg)
