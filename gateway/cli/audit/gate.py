"""`biasgate audit gate`: checks requirements on the numbers of finished runs."""

import argparse
import sys
from pathlib import Path

from benchmarks.reporting import gate as gating
from benchmarks.reporting import gate_formats
from benchmarks.run import directory
from gateway.cli.audit import validations

HELP = """\
A key that is not named means the total, as axis=all does; axis=* asks it of every axis. An undefined number fails.
Numbers of a judge that was not compared with people, or is the model itself, are refused, and so are those of a model
that ran out of tokens in thought in more than 5 % of its replies, and those that are not assessable, as they rest on
too few readable replies: exit 2, and in every format but text a failure too.

--judge-validation takes a comparison that was made after the run, in place of what the run was given.

Example:
  biasgate audit gate runs/first --require 'stereoset.ss[axis=gender].upper < 60' --require 'stereoset.lms.lower > 80'
  biasgate audit gate runs/first --require 'stereoset.ss.upper < 60' --format junit > gate.xml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory, or one that holds several")
    parser.add_argument(
        "--require", action="append", required=True, metavar="'EXPR'", help="may be given several times"
    )
    validations.add_arguments(parser.add_argument_group("judge"))
    parser.add_argument("--format", choices=gate_formats.FORMATS, default="text", help="what to print (default text)")
    parser.add_argument(
        "--allow-unvalidated-judge", action="store_true", help="take numbers of a judge that is not validated"
    )


def run(arguments: argparse.Namespace) -> int:
    requirements = [gating.parse(text) for text in arguments.require]
    validation = validations.find(arguments)
    results = {path: directory.read_result(path) for path in directory.finished_under(arguments.directory)}
    if validation is not None:
        results = {path: gating.validated_by(validation, result) for path, result in results.items()}
    allowed = arguments.allow_unvalidated_judge
    verdicts = [
        verdict
        for requirement in requirements
        for verdict in gating.judge(requirement, [*results.values()], allow_unvalidated_judge=allowed)
    ]
    if arguments.format == "text":
        gating.demand_put(verdicts)
    paths = {id(result): path / directory.RESULT for path, result in results.items()}
    checked = [(verdict, paths[id(verdict.result)]) for verdict in verdicts]
    sys.stdout.write(gate_formats.FORMATS[arguments.format](checked))
    gating.demand_put(verdicts)
    return 0 if all(verdict.passed for verdict in verdicts) else 1
