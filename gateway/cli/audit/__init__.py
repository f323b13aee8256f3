"""`biasgate audit`: finds the action and runs it."""

import argparse

from gateway.cli.actions import add_actions
from gateway.cli.audit import bundle, compare, export, gate, import_log, own_prompts, report, run_suites, score, verify
from gateway.cli.errors import as_gateway_errors

HELP = """\
Each action has its own --help with an example.

Example:
  biasgate audit run --suite stereoset --model m --base-url http://127.0.0.1:8000 --data embedded --out runs/first
  biasgate audit gate runs/first --require 'stereoset.ss.upper < 70'
  biasgate audit report runs/first runs/second --out report.html
"""

ACTIONS = {
    "run": (run_suites, "ask a served model and score its replies"),
    "prompts": (own_prompts, "ask a team's own prompts about one group and another"),
    "score": (score, "score recorded replies; sends nothing"),
    "import": (import_log, "score a log of Inspect or lm-evaluation-harness; sends nothing"),
    "compare": (compare, "compare two runs of one suite, paired by item"),
    "gate": (gate, "check requirements on a run; exit 1 when one fails"),
    "report": (report, "write one self-contained page from run directories"),
    "export": (export, "write finished runs in the form that others read"),
    "bundle": (bundle, "pack a finished run into one file that can be signed"),
    "verify": (verify, "check that a bundle is as it was signed"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    add_actions(actions, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    module, _ = ACTIONS[arguments.action]
    with as_gateway_errors():
        return int(module.run(arguments))
