"""`biasgate auditor`: the auditor role alone."""

import argparse
from pathlib import Path

from gateway.processes.roles import run_auditor, run_auditor_child

HELP = """\
Needs the extra "auditor". With a postgresql:// store, several auditors share the work.

Example:
  biasgate auditor --config biasgate.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)  # given by `biasgate serve`


def run(arguments: argparse.Namespace) -> int:
    return run_auditor_child() if arguments.child else run_auditor(arguments.config)
