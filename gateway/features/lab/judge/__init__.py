"""`biasgate judge`: `calibrate` measures a judge against people's labels; the others distil a small one."""

import argparse

from gateway.cli.actions import add_actions
from gateway.cli.errors import as_gateway_errors
from gateway.features.lab.judge import (
    calibrate,
    distill_data,
    distill_eval,
    distill_serve,
    distill_train,
    panel,
    reference,
)

HELP = """\
How far a judge can be relied on, and a small one made of a strong one.

Example:
  biasgate judge calibrate labels.jsonl
"""

ACTIONS = {
    "calibrate": (calibrate, "compare a judge with people, and people with one another"),
    "panel": (panel, "put replies to several judges: agreement, self-preference, order"),
    "reference": (reference, "watch a judge for drift: make a reference set, judge it again"),
    "distill-data": (distill_data, "make a training set of judged runs"),
    "distill-train": (distill_train, "train a small judge on it (LoRA)"),
    "distill-serve": (distill_serve, "print the vLLM command that serves it"),
    "distill-eval": (distill_eval, "compare it with the strong judge and with people"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    add_actions(actions, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    with as_gateway_errors():
        return int(ACTIONS[arguments.action][0].run(arguments))
