"""`biasgate judge`: `qualify` and `calibrate` measure a judge; the others distil a small one."""

import argparse

from gateway.cli.actions import add_actions, run_action
from gateway.feature import Command

HELP = """\
How far a judge can be relied on, and a small one made of a strong one.

Example:
  biasgate judge calibrate labels.jsonl
"""

ACTIONS = {
    "calibrate": Command(
        "gateway.features.lab.judge.calibrate", "compare a judge with people, and people with one another"
    ),
    "qualify": Command(
        "gateway.features.lab.judge.qualify", "put planted texts to a judge: the uses that it is good enough for"
    ),
    "panel": Command(
        "gateway.features.lab.judge.panel", "put replies to several judges: agreement, self-preference, order"
    ),
    "reference": Command(
        "gateway.features.lab.judge.reference", "watch a judge for drift: make a reference set, judge it again"
    ),
    "distill-data": Command("gateway.features.lab.judge.distill_data", "make a training set of judged runs"),
    "distill-train": Command("gateway.features.lab.judge.distill_train", "train a small judge on it (LoRA)"),
    "distill-serve": Command("gateway.features.lab.judge.distill_serve", "print the vLLM command that serves it"),
    "distill-eval": Command(
        "gateway.features.lab.judge.distill_eval", "compare it with the strong judge and with people"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    add_actions(actions, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    return run_action(arguments)
