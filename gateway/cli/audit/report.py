"""`biasgate audit report`: one self-contained page, or tables, from finished runs."""

import argparse
from pathlib import Path

from benchmarks.reporting import report as reporting
from benchmarks.reporting.headline import places
from benchmarks.reporting.leaderboard import leaderboards, separation
from benchmarks.reporting.side_by_side import Grid, alike, grids, names
from benchmarks.run import directory
from benchmarks.run.result import Result
from gateway.cli.actions import write_file
from gateway.cli.audit.leaderboard import leaderboard_text, with_interval
from gateway.terminal.tables import aligned, estimates_table, summary

HELP = """\
The page needs nothing from elsewhere; several models make a leaderboard. Without --out the leaderboard is printed.

Example:
  biasgate audit report runs/first runs/second --out report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="a run directory, or one that holds several"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="write the page (default: print tables)")


def run(arguments: argparse.Namespace) -> int:
    paths = [path for root in arguments.directories for path in directory.finished_under(root)]
    results = [directory.read_result(path) for path in paths]
    if arguments.out is None:
        print(text(results))
        return 0
    write_file(arguments.out, reporting.render(results))
    print(arguments.out)
    return 0


def text(results: list[Result]) -> str:
    """Leaderboards; without any, the numbers of each run; then those of papers, as far as the page unfolds them."""
    boards = [leaderboard_text(board) for board in leaderboards(results)]
    note = separation(results)
    run_names = names(results)
    tables = [
        f"{result.suite} {result.suite_version}, {result.protocol} protocol, {result.dataset.name}, {name}\n"
        f"{summary(result)}\n\n{estimates_table(result)}"
        for name, result in zip(run_names, results, strict=True)
    ]
    beside = [
        _grid_text(grid, places(results[together[0]].suite, grid.metric))
        for together in alike(results)
        for grid in grids([results[at] for at in together], [run_names[at] for at in together])
        if not grid.is_folded
    ]
    return "\n\n".join([*([note] if note else []), *(boards or tables), *beside])


def _grid_text(grid: Grid, decimals: int) -> str:
    rows = [[cell if isinstance(cell, str) else with_interval(cell, decimals) for cell in row] for row in grid.rows]
    return "\n".join([f"Side by side: {grid.title}", aligned([grid.head, *rows]), *grid.notes])
