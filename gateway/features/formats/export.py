"""`biasgate audit export`: finished runs in the form that others read."""

import argparse
import os
import sys
import time
from pathlib import Path

from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.suites import registry
from gateway.cli.actions import write_file
from gateway.features.formats import every_eval_ever, mlflow_runs, model_card

HELP = """\
model-card: a section for the README of a model, with the metadata (model-index) that Hugging Face's hub reads.
mlflow: a run in an experiment of MLflow for each; needs the extra mlflow, and the name of a tracking store.
every-eval-ever: a record of that schema for each, in the folders of its datastore.

Examples:
  biasgate audit export runs/first --to model-card --out section.md
  biasgate audit export runs --to mlflow --tracking-uri sqlite:///mlflow.db
  biasgate audit export runs --to every-eval-ever --out records --organization "Our Lab" --relationship third_party \\
    --model-id org/model
"""

EXPERIMENT = "biasgate"
OPTIONS = {
    "model-card": {"out"},
    "mlflow": {"tracking_uri", "experiment"},
    "every-eval-ever": {"out", "organization", "relationship", "model_id"},
}
"""Options that each form takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory, or one that holds several")
    parser.add_argument("--to", choices=tuple(OPTIONS), required=True, help="which form")
    words = "model-card: file (default: the standard output); every-eval-ever: folder, which gets a folder data"
    parser.add_argument("--out", type=Path, metavar="PATH", help=words)
    words = "mlflow: its store, as sqlite:///FILE or http://HOST (default: MLFLOW_TRACKING_URI)"
    parser.add_argument("--tracking-uri", metavar="URI", help=words)
    parser.add_argument("--experiment", metavar="NAME", help=f"mlflow: created if it is absent (default: {EXPERIMENT})")

    prefix = "every-eval-ever: "
    parser.add_argument("--organization", metavar="NAME", help=f"{prefix}who evaluated")
    parser.add_argument("--relationship", choices=every_eval_ever.RELATIONSHIPS, help=f"{prefix}of these to the model")
    parser.add_argument("--model-id", metavar="ORG/NAME", help=f"{prefix}the model (default: its served name)")


def run(arguments: argparse.Namespace) -> int:
    for name in set().union(*OPTIONS.values()) - OPTIONS[arguments.to]:
        if getattr(arguments, name) is not None:
            raise BenchmarkError(f"--{name.replace('_', '-')} has no meaning with --to {arguments.to}: leave it out")
    return WAYS[arguments.to](arguments)


def _to_model_card(arguments: argparse.Namespace) -> int:
    results = [directory.read_result(path) for path in directory.finished_under(arguments.directory)]
    page = model_card.card([(result, registry.find(result.suite)) for result in results])
    if arguments.out is None:
        sys.stdout.write(page)
        return 0
    write_file(arguments.out, page)
    print(visible_line(f"{arguments.out}: {len(results)} suites of {results[0].model}"))
    return 0


def _to_every_eval_ever(arguments: argparse.Namespace) -> int:
    if None in (arguments.out, arguments.organization, arguments.relationship):
        raise BenchmarkError("--to every-eval-ever needs --out, --organization and --relationship")
    names = ("organization", "relationship", "model_id")
    source = every_eval_ever.Source(**{name: getattr(arguments, name) for name in names})
    paths = directory.finished_under(arguments.directory)
    for written in every_eval_ever.write(paths, arguments.out, source, int(time.time())):
        left_out = f"{written.n_undefined} undefined"
        if written.without_side:
            left_out += f"; no better side: {', '.join(written.without_side)}"
        print(f"{written.path or written.suite}: {written.n_results} results, {left_out}")
    return 0


def _to_mlflow(arguments: argparse.Namespace) -> int:
    uri = arguments.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        raise BenchmarkError("--to mlflow needs --tracking-uri, as sqlite:///mlflow.db, or MLFLOW_TRACKING_URI")
    paths = directory.finished_under(arguments.directory)
    for logged in mlflow_runs.log(paths, uri, arguments.experiment or EXPERIMENT):
        counts = f"{logged.n_metrics} metrics, {logged.n_undefined} numbers undefined"
        print(f"{logged.suite}: run {logged.run_id}: {counts if logged.is_new else 'was there already'}")
    return 0


WAYS = {"model-card": _to_model_card, "mlflow": _to_mlflow, "every-eval-ever": _to_every_eval_ever}
