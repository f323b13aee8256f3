"""`biasgate mitigate regard-ft serve`: the vLLM command that serves every checkpoint beside its base model."""

import argparse
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.training import artefact
from gateway.cli import training
from gateway.cli.mitigate.regard_ft_train import KIND

HELP = """\
Each checkpoint is a model of its own, step-N; the base model has its own name. A suite's runs of them say what the
training changed, on the axis trained and elsewhere.

Example:
  $(biasgate mitigate regard-ft serve regard-8b --port 8001)
  biasgate audit run --suite ltf_test --subset eval --model step-100 --base-url http://127.0.0.1:8001 ...
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="what regard-ft train wrote")
    parser.add_argument("--base-model", type=Path, metavar="DIR", help="the base model (default: where it was)")
    parser.add_argument("--port", type=int, default=8001, help="default 8001")


def run(arguments: argparse.Namespace) -> int:
    found = {f"step-{step}": path for step, path in artefact.checkpoints(arguments.out)}
    if not found:
        raise BenchmarkError(f"{arguments.out}: no checkpoint is there: train first (mitigate regard-ft train)")
    for path in found.values():
        kind = artefact.card(path).identity.kind
        if kind != KIND:
            raise BenchmarkError(f"{path}: a checkpoint of {kind}, not of {KIND}")
    print(training.vllm_command(found, arguments.base_model, arguments.port))
    return 0
