"""`biasgate judge distill-train`: a LoRA adapter that makes a small model the judge."""

import argparse
from pathlib import Path

import msgspec

from benchmarks.lab.distillation import data
from benchmarks.lab.distillation.data import example
from benchmarks.lab.training import lora
from gateway.features.lab import training

HELP = """\
The same command goes on where a training was cut off, also by kill -9, from its last checkpoint.

Example:
  biasgate judge distill-train judge-data --recipe deploy/distilled-judge-8b.toml --out judge-8b
  biasgate judge distill-train judge-data --recipe deploy/distilled-judge-8b.toml --out judge-8b --dry-run
"""

KIND = "distilled-judge"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="what judge distill-data wrote")
    training.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    recipe = training.given_recipe(arguments)
    card, essays = data.read(arguments.data, data.TRAIN)
    if arguments.dry_run:
        training.show_estimate(recipe, len(essays))
        return 0
    examples = [example(essay, card.protocol, card.form) for essay in essays]
    about = msgspec.to_builtins(card, str_keys=True)
    adapter = lora.train(recipe, examples, arguments.out, kind=KIND, about=about, say=training.say)
    training.show_trained(adapter)
    return 0
