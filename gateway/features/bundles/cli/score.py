"""`biasgate audit score`, which takes a bundle too and scores its replies again."""

import argparse
from pathlib import Path

from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from gateway.cli.audit import score
from gateway.features.bundles.rescoring import rescore

HELP = """\
A line needs item_id and text, or choice_probabilities in mode exact.

Ids and prompts come from `biasgate suites --items`. A bundle needs no further argument: its numbers are computed again
and compared with its result.json; exit 1 when one differs.

Example:
  biasgate suites --items stereoset --out items.jsonl
  biasgate audit score --suite stereoset --responses replies.jsonl --out runs/recorded
  biasgate audit score first.bundle
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", nargs="?", type=Path, metavar="BUNDLE", help="what audit bundle wrote")
    score.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    path: Path | None = arguments.bundle
    if path is None:
        for name in ("suite", "responses"):
            if not getattr(arguments, name):
                raise BenchmarkError(f"audit score needs --{name}, or a bundle; see biasgate audit score --help")
        return score.run(arguments)
    if arguments.suite or arguments.responses or arguments.out:
        raise BenchmarkError(f"{path}: a bundle says what it is of: leave --suite, --responses and --out")
    rescored = rescore(path)
    for line in rescored.notes:
        print(visible_line(line))
    for line in rescored.differences:
        print(visible_line(f"FAIL  {line}"))
    print(f"{rescored.n_same} numbers are as in result.json, {len(rescored.differences)} differences")
    return 1 if rescored.differences else 0
