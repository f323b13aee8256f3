"""`biasgate judge distill-serve`: the vLLM command that serves a distilled judge."""

import argparse
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact
from gateway.features.lab import training
from gateway.features.lab.judge.distill_train import KIND

HELP = """\
Prints the command, after checking that adapter and base model belong together. The base model is served too, under its
own name.

Example:
  biasgate judge distill-serve judge-8b/adapter
  $(biasgate judge distill-serve judge-8b/adapter --name judge --port 8001)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("adapter", type=Path, metavar="ADAPTER", help="OUT/adapter, or a checkpoint, of distill-train")
    parser.add_argument("--base-model", type=Path, metavar="DIR", help="the base model (default: where it was)")
    parser.add_argument("--name", default=KIND, metavar="NAME", help=f"of the judge as a model (default {KIND})")
    parser.add_argument("--port", type=int, default=8001, help="default 8001")


def run(arguments: argparse.Namespace) -> int:
    card = artefact.card(arguments.adapter)
    if card.identity.kind != KIND:
        raise BenchmarkError(f"{arguments.adapter}: an adapter of {card.identity.kind}, not of a judge")
    print(training.vllm_command({arguments.name: arguments.adapter}, arguments.base_model, arguments.port))
    return 0
