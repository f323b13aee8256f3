"""`biasgate mitigate regard-ft|filter`: finds the step and runs it."""

import argparse
from collections.abc import Mapping

from gateway.cli.actions import add_actions, run_action
from gateway.feature import Command

HELP = """\
regard-ft fine-tunes a model on questions that run women or men down and answers that deny the premise (protocols 2.13);
filter trains the classifier of a gateway's filter.

Example:
  biasgate mitigate regard-ft data --out regard-data
  biasgate mitigate regard-ft train --recipe deploy/regard-ft-8b.toml --out regard-8b
  biasgate mitigate filter train --examples labelled.jsonl --embedder bge-small --base-url http://127.0.0.1:8002 \\
    --out head.json
"""

METHODS: Mapping[str, tuple[str, Mapping[str, Command]]] = {
    "regard-ft": (
        "fine-tune a model so that it denies disrespectful premises",
        {
            "data": Command(f"{__name__}.regard_ft_data", "write the questions and answers, with checks"),
            "train": Command(f"{__name__}.regard_ft_train", "train an adapter on them (LoRA), with checkpoints"),
            "serve": Command(f"{__name__}.regard_ft_serve", "print the vLLM command that serves every checkpoint"),
            "evaluate": Command(
                f"{__name__}.regard_ft_evaluate", "ask base model and checkpoints, and say what changed"
            ),
            "plot": Command(f"{__name__}.regard_ft_plot", "draw the gap and BBQ accuracy by training step"),
        },
    ),
    "filter": (
        "the classifier of a gateway's query_filter or response_filter",
        {"train": Command(f"{__name__}.filter_train", "train its head on labelled texts")},
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    methods = parser.add_subparsers(dest="method", required=True, metavar="|".join(METHODS))
    for name, (summary, of) in METHODS.items():
        method = methods.add_parser(name, help=summary, description=summary)
        add_actions(method.add_subparsers(dest="step", required=True, metavar="|".join(of)), of)


run = run_action
