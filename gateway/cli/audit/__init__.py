"""`biasgate audit`: finds the action and runs it."""

import argparse

from gateway.cli import all_actions
from gateway.cli.actions import add_actions, run_action
from gateway.feature import Command

HELP = """\
Each action has its own --help with an example.

Example:
  biasgate audit run --suite stereoset --model m --base-url http://127.0.0.1:8000 --data embedded --out runs/first
  biasgate audit gate runs/first --require 'stereoset.ss.upper < 70'
  biasgate audit report runs/first runs/second --out report.html
"""

ACTIONS = {
    "run": Command("gateway.cli.audit.run_suites", "ask a served model and score its replies"),
    "prompts": Command("gateway.cli.audit.own_prompts", "ask a team's own prompts about one group and another"),
    "score": Command("gateway.cli.audit.score", "score recorded replies; sends nothing"),
    "compare": Command("gateway.cli.audit.compare", "compare two runs of one suite, paired by item"),
    "gate": Command("gateway.cli.audit.gate", "check requirements on a run; exit 1 when one fails"),
    "report": Command("gateway.cli.audit.report", "write one self-contained page from run directories"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = all_actions("audit", ACTIONS)
    add_actions(parser.add_subparsers(dest="action", required=True, metavar="|".join(commands)), commands)


def run(arguments: argparse.Namespace) -> int:
    return run_action(arguments)
