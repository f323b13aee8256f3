"""`biasgate mitigate regard-ft serve`: the vLLM command that serves every checkpoint together with its base model."""

import argparse
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact
from gateway.features.lab import training
from gateway.features.lab.mitigate.regard_ft_train import KIND

HELP = """\
Each checkpoint is served as the model step-N, the base model under its own name. A suite's runs of them say what the
training changed, on the axis trained and elsewhere.

Example:
  $(biasgate mitigate regard-ft serve regard-8b --port 8001)
  biasgate audit run --suite ltf_test --subset eval --model step-100 --base-url http://127.0.0.1:8001 ...
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoints(parser)
    parser.add_argument("--port", type=int, default=8001, help="default 8001")


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the directory of the checkpoints and for their base model."""
    parser.add_argument("out_of_training", type=Path, metavar="OUT", help="what regard-ft train wrote")
    parser.add_argument("--base-model", type=Path, metavar="DIR", help="the base model (default: where it was)")


def run(arguments: argparse.Namespace) -> int:
    adapters = {f"step-{step}": path for step, path in checkpoints(arguments.out_of_training).items()}
    print(training.vllm_command(adapters, arguments.base_model, arguments.port))
    return 0


def checkpoints(out: Path) -> dict[int, Path]:
    """The whole checkpoints of a training by step. Raises BenchmarkError where there is none, or of another kind."""
    by_step = dict(artefact.checkpoints(out))
    if not by_step:
        raise BenchmarkError(f"{out}: no checkpoint is there: train first (mitigate regard-ft train)")
    for path in by_step.values():
        kind = artefact.card(path).identity.kind
        if kind != KIND:
            raise BenchmarkError(f"{path}: a checkpoint of {kind}, not of {KIND}")
    return by_step
