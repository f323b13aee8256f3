"""`biasgate audit report`: one self-contained page, or tables, from finished runs."""

import argparse
from pathlib import Path

from benchmarks.reporting import report as reporting
from benchmarks.reporting.leaderboard import leaderboards, separation
from benchmarks.run import directory
from benchmarks.run.result import Result
from gateway.cli.audit.leaderboard import leaderboard_text
from gateway.cli.errors import write_file
from gateway.terminal.tables import estimates_table, summary

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
        print(_text(results))
        return 0
    write_file(arguments.out, reporting.render(results))
    print(arguments.out)
    return 0


def _text(results: list[Result]) -> str:
    """Leaderboards; without any, the numbers of each run."""
    boards = [leaderboard_text(board) for board in leaderboards(results)]
    note = separation(results)
    tables = [
        f"{result.suite} {result.suite_version}, {result.protocol} protocol, {result.dataset.name}, {result.model}\n"
        f"{summary(result)}\n\n{estimates_table(result)}"
        for result in results
    ]
    return "\n\n".join([*([note] if note else []), *(boards or tables)])
