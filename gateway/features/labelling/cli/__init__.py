"""`biasgate annotate`: finds the action and runs it."""

import argparse

from gateway.cli.actions import add_actions, run_action
from gateway.feature import Command

HELP = """\
A project is a set of replies that people label, two or more of them each, without sight of a judge's score or of each
other's labels. It lies in a separate file (--store), or with --config in the gateway's store.

Example:
  biasgate annotate import runs/ltf --project essays --n 200
  biasgate annotate invite essays --rater ann --rater bo
  biasgate annotate serve
  biasgate annotate export --project essays --out labels.jsonl
  biasgate judge calibrate labels.jsonl
"""

ACTIONS = {
    "import": Command(f"{__name__}.importing", "make tasks of a run's replies, or take in labels given elsewhere"),
    "invite": Command(
        f"{__name__}.inviting", "make the links by which raters enter, one a rater; list and revoke them"
    ),
    "serve": Command(f"{__name__}.serving", "serve the tasks to raters, as a page and over HTTP"),
    "export": Command(f"{__name__}.exporting", "write labels for `judge calibrate`, or tasks for Label Studio"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    for action in add_actions(actions, ACTIONS):
        action.add_argument("--store", metavar="FILE", help="where projects lie (default: labels.db)")
        action.add_argument("--config", metavar="FILE", help="take the store of this configuration instead")


run = run_action
