"""`biasgate mitigate regard-ft plot`: the gap and BBQ accuracy by training step, as the paper's Figure 5."""

import argparse
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.lab.regard_ft import evaluation, page
from benchmarks.reporting.pages import standalone_svg
from gateway.cli.actions import write_file

HELP = """\
An .html file is a complete page with verdicts, figure and every number; an .svg file is the figure alone.

Example:
  biasgate mitigate regard-ft plot regard-8b-evaluation
  biasgate mitigate regard-ft plot regard-8b-evaluation --out figure.svg
"""

PAGE = "evaluation.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="what regard-ft evaluate wrote")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f".html or .svg (default DIR/{PAGE})")


def run(arguments: argparse.Namespace) -> int:
    out: Path = arguments.out or arguments.directory / PAGE
    if out.suffix not in (".html", ".svg"):
        raise BenchmarkError(f'--out "{out}": must end in .html or .svg')
    result = evaluation.read(arguments.directory)
    drawn = standalone_svg(page.drawn(result)) if out.suffix == ".svg" else page.render(result)
    write_file(out, drawn)
    print(out)
    return 0
