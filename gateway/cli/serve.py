"""`biasgate serve`: the gateway and the auditor on one machine."""

import argparse

from gateway.children.parent_pipe import end_with_parent
from gateway.cli.serve_gateway import add_placement, read_placement
from gateway.processes.roles import run_both

HELP = """\
The gateway's workers and one auditor, kept running under one parent; Ctrl-C drains and stops all.

Example:
  biasgate serve --config biasgate.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement(parser)
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)  # given by `biasgate demo`


def run(arguments: argparse.Namespace) -> int:
    if arguments.with_parent:
        end_with_parent()
    placement = read_placement(arguments)
    return run_both(placement.read(), placement)
