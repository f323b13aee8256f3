"""`biasgate audit gate`: checks requirements on the numbers of finished runs."""

import argparse
from pathlib import Path

from benchmarks.reporting import gate as gating
from benchmarks.reporting.report import number
from benchmarks.run import directory

HELP = """\
A key that is not named means the total; axis=* asks it of every axis. An undefined number fails, with its reason.
Numbers of a judge that was not compared with people, or is the model itself, are refused, and so are those of a model
that ran out of tokens in thought in more than 5 % of its replies.

Example:
  biasgate audit gate runs/first --require 'stereoset.ss[axis=gender].upper < 60' --require 'stereoset.lms.lower > 80'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory, or one that holds several")
    parser.add_argument(
        "--require", action="append", required=True, metavar="'EXPR'", help="may be given several times"
    )
    parser.add_argument(
        "--allow-unvalidated-judge", action="store_true", help="take numbers of a judge that is not validated"
    )


def run(arguments: argparse.Namespace) -> int:
    requirements = [gating.parse(text) for text in arguments.require]
    results = [directory.read_result(path) for path in directory.finished_under(arguments.directory)]
    if not arguments.allow_unvalidated_judge:
        gating.demand_validated(requirements, results)
    gating.demand_finished_thinking(requirements, results)
    verdicts = [verdict for requirement in requirements for verdict in gating.judge(requirement, results)]
    for verdict in verdicts:
        found = verdict.reason or number(verdict.found, places=2)
        print(f"{'pass' if verdict.passed else 'FAIL'}  {verdict.requirement}  ({verdict.where}: {found})")
    return 0 if all(verdict.passed for verdict in verdicts) else 1
