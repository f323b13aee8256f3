"""`biasgate audit export`: finished runs in the form that others read."""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.reporting import mlflow_runs, model_card
from benchmarks.run import directory
from benchmarks.suites import registry

HELP = """\
model-card: a section for the README of a model, with the metadata (model-index) that Hugging Face's hub reads.
mlflow: a run in an experiment of MLflow for each; needs the extra mlflow, and the name of a tracking store.

Examples:
  biasgate audit export runs/first --to model-card --out section.md
  biasgate audit export runs --to mlflow --tracking-uri sqlite:///mlflow.db
"""

FORMS = ("model-card", "mlflow")
EXPERIMENT = "biasgate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory, or one that holds several")
    parser.add_argument("--to", choices=FORMS, required=True, help="which form")
    parser.add_argument("--out", type=Path, metavar="FILE", help="model-card: where to (default: the standard output)")
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="mlflow: its store, as sqlite:///FILE or http://HOST (default: MLFLOW_TRACKING_URI)",
    )
    parser.add_argument("--experiment", metavar="NAME", help=f"mlflow: made if it is not there (default: {EXPERIMENT})")


def run(arguments: argparse.Namespace) -> int:
    _demand_meant(arguments)
    return _to_mlflow(arguments) if arguments.to == "mlflow" else _to_model_card(arguments)


OPTIONS = {"model-card": {"out"}, "mlflow": {"tracking_uri", "experiment"}}


def _demand_meant(arguments: argparse.Namespace) -> None:
    """Raises BenchmarkError for an option that is another form's: it would be without effect."""
    for name in set().union(*OPTIONS.values()) - OPTIONS[arguments.to]:
        if getattr(arguments, name) is not None:
            raise BenchmarkError(f"--{name.replace('_', '-')} has no meaning with --to {arguments.to}: leave it away")


def _to_model_card(arguments: argparse.Namespace) -> int:
    results = [directory.read_result(path) for path in directory.finished_under(arguments.directory)]
    page = model_card.card([(result, registry.find(result.suite)) for result in results])
    if arguments.out is None:
        sys.stdout.write(page)
        return 0
    try:
        arguments.out.write_text(page, encoding="utf-8")
    except OSError as exc:
        raise BenchmarkError(f"{arguments.out}: cannot be written: {exc.strerror}") from exc
    print(f"{arguments.out}: {len(results)} suites of {results[0].model}")
    return 0


def _to_mlflow(arguments: argparse.Namespace) -> int:
    uri = arguments.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        raise BenchmarkError("--to mlflow needs --tracking-uri, as sqlite:///mlflow.db, or MLFLOW_TRACKING_URI")
    paths = directory.finished_under(arguments.directory)
    for one in mlflow_runs.log(paths, uri, arguments.experiment or EXPERIMENT):
        told = f"{one.n_metrics} metrics, {one.n_undefined} numbers undefined" if one.is_new else "was there already"
        print(f"{one.suite}: run {one.run_id}: {told}")
    return 0
