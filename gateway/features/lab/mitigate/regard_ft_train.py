"""`biasgate mitigate regard-ft train`: a LoRA adapter that denies disrespectful premises."""

import argparse
from pathlib import Path

import msgspec

from benchmarks.lab.regard_ft import data
from benchmarks.lab.training import lora
from gateway.features.lab import training

HELP = """\
Without --data it trains on what regard-ft data writes without options. The same command goes on where a training was
cut off, also by kill -9, from its last checkpoint.

Example:
  biasgate mitigate regard-ft train --recipe deploy/regard-ft-8b.toml --out regard-8b
  biasgate mitigate regard-ft train --recipe deploy/regard-ft-8b.toml --out regard-8b --dry-run
"""

KIND = "regard-ft"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="what regard-ft data wrote (default: newly made)")
    training.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    recipe = training.given_recipe(arguments)
    if arguments.data is None:
        pairs = data.build()
        about = {"generator": data.GENERATOR, "seed": 0, "n_pairs": len(pairs)}
    else:
        card, pairs = data.read(arguments.data)
        about = msgspec.to_builtins(card, str_keys=True)
    data.demand_balance(pairs)
    if arguments.dry_run:
        training.show_estimate(recipe, len(pairs))
        return 0
    adapter = lora.train(recipe, data.examples(pairs), arguments.out, kind=KIND, about=about, say=training.say)
    training.show_trained(adapter)
    return 0
