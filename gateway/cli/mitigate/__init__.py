"""`biasgate mitigate regard-ft`: finds the step and runs it."""

import argparse

from gateway.cli.actions import add_actions
from gateway.cli.errors import as_gateway_errors
from gateway.cli.mitigate import regard_ft_data, regard_ft_serve, regard_ft_train

HELP = """\
regard-ft fine-tunes a model on questions that run women or men down and answers that deny the premise (protocols 2.13).

Example:
  biasgate mitigate regard-ft data --out regard-data
  biasgate mitigate regard-ft train --recipe deploy/regard-ft-8b.toml --out regard-8b
"""

STEPS = {
    "data": (regard_ft_data, "write the questions and answers, with checks"),
    "train": (regard_ft_train, "train an adapter on them (LoRA), with checkpoints"),
    "serve": (regard_ft_serve, "print the vLLM command that serves every checkpoint"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    methods = parser.add_subparsers(dest="method", required=True, metavar="regard-ft")
    summary = "fine-tune a model so that it denies disrespectful premises"
    method = methods.add_parser("regard-ft", help=summary, description=summary)
    steps = method.add_subparsers(dest="step", required=True, metavar="|".join(STEPS))
    add_actions(steps, STEPS)


def run(arguments: argparse.Namespace) -> int:
    module, _ = STEPS[arguments.step]
    with as_gateway_errors():
        return int(module.run(arguments))
