"""`biasgate audit export`: finished runs in the form that others read."""

import argparse
import sys
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.reporting import model_card
from benchmarks.run import directory
from benchmarks.suites import registry

HELP = """\
model-card: a section for the README of a model, with the metadata (model-index) that Hugging Face's hub reads.

Example:
  biasgate audit export runs/first --to model-card --out section.md
"""

FORMS = ("model-card",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory, or one that holds several")
    parser.add_argument("--to", choices=FORMS, required=True, help="which form")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to (default: the standard output)")


def run(arguments: argparse.Namespace) -> int:
    results = [directory.read_result(path) for path in directory.finished_under(arguments.directory)]
    page = model_card.card([(result, registry.find(result.suite)) for result in results])
    if arguments.out is None:
        sys.stdout.write(page)
        return 0
    try:
        arguments.out.write_text(page, encoding="utf-8")
    except OSError as exc:
        raise BenchmarkError(f"{arguments.out}: cannot be written: {exc.strerror}") from exc
    print(f"{arguments.out}: {len(results)} suites of {results[0].model}")
    return 0
