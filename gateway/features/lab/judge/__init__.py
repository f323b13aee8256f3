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
    "calibrate": Command(f"{__name__}.calibrate", "compare a judge with people, and people with one another"),
    "qualify": Command(f"{__name__}.qualify", "put planted texts to a judge: the uses that it is good enough for"),
    "panel": Command(f"{__name__}.panel", "put replies to several judges: agreement, self-preference, order"),
    "reference": Command(f"{__name__}.reference", "watch a judge for drift: make a reference set, judge it again"),
    "distill-data": Command(f"{__name__}.distill_data", "make a training set of judged runs"),
    "distill-train": Command(f"{__name__}.distill_train", "train a small judge on it (LoRA)"),
    "distill-serve": Command(f"{__name__}.distill_serve", "print the vLLM command that serves it"),
    "distill-eval": Command(f"{__name__}.distill_eval", "compare it with the strong judge and with people"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    add_actions(actions, ACTIONS)


run = run_action
