"""`biasgate annotate import`: makes tasks of a run's replies, or takes in labels that were given elsewhere."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.labelling.forms import FormName, LabelError
from auditors.text.user_files import read_utf8
from benchmarks.errors import decode_lines
from benchmarks.lab import labelling
from benchmarks.run import directory
from gateway.cli.opening import opened
from gateway.errors import GatewayError
from gateway.features.labelling import label_studio, labels, projects
from gateway.features.labelling.labels import Entry

HELP = """\
A run directory becomes tasks, drawn at random (--n) and put in random order. A file is labels: JSON lines with task,
annotator and label (what `annotate export` writes), or Label Studio's JSON export with --format label-studio. Either
the whole file is imported or nothing. The same label twice counts once; a different label of the same rater is an error
without --replace.

Example:
  biasgate annotate import runs/ltf --project essays --n 200 --raters 2
  biasgate annotate import from-ann.jsonl --project essays
  biasgate annotate import export.json --project essays --format label-studio
"""


class Line(msgspec.Struct, frozen=True):
    """A label in JSON lines; unknown fields are left out."""

    task: str
    annotator: str
    label: dict[str, Any]
    role: str = "rater"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="DIR|FILE", help="a run directory, or a file of labels")
    parser.add_argument("--project", required=True, metavar="NAME", help="created if it does not exist")
    parser.add_argument("--n", type=int, metavar="N", help="how many replies of the run (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the drawing (default 0)")
    parser.add_argument("--raters", type=int, default=2, metavar="N", help="how many label each task (default 2)")
    parser.add_argument("--form", choices=get_args(FormName), help="what to ask (default: the suite's usual form)")
    parser.add_argument("--format", choices=("jsonl", "label-studio"), default="jsonl", help="of a file of labels")
    parser.add_argument("--replace", action="store_true", help="a label of a file replaces the rater's stored one")


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= len(arguments.project) <= 100 or not 1 <= arguments.raters <= 10:
        raise GatewayError("--project takes a name of 1 to 100 characters, --raters a number from 1 to 10")
    return asyncio.run(_tasks(arguments) if arguments.source.is_dir() else _labels(arguments))


async def _tasks(arguments: argparse.Namespace) -> int:
    drawn = labelling.draw(arguments.source, form=arguments.form, n=arguments.n, seed=arguments.seed)
    options = directory.read_manifest(arguments.source).options
    about = {"suite": options.suite, "model": options.model, "n_usable": drawn.n_usable, "seed": arguments.seed}
    project = projects.made_now(arguments.project, drawn.form, arguments.raters, about)
    async with opened(arguments, create=True) as database:
        n_new = await projects.add(database, project, drawn.tasks)
    left_out = f"; {drawn.n_without} replies without a text or not of this form" if drawn.n_without else ""
    existing = f", {len(drawn.tasks) - n_new} were there" if n_new < len(drawn.tasks) else ""
    print(
        f"{arguments.project}: {n_new} tasks of form {drawn.form}, of {drawn.n_usable} replies of {options.suite} by "
        f"{options.model}{existing}{left_out}"
    )
    return 0


async def _labels(arguments: argparse.Namespace) -> int:
    try:
        content = read_utf8(arguments.source)
    except OSError as exc:
        raise GatewayError(f"{arguments.source}: {exc.strerror}: name a run directory or a file of labels") from exc
    async with opened(arguments) as database:
        project = (await projects.progress(database, arguments.project)).project
        reads = _from_label_studio if arguments.format == "label-studio" else _from_lines
        entries, n_without = reads(arguments.source, content, project.form)
        try:
            n_changed = await labels.save_all(database, arguments.project, entries, replace=arguments.replace)
        except GatewayError as exc:
            raise type(exc)(f"{arguments.source}: {exc}") from exc
        progress = await projects.progress(database, arguments.project)
    left_out = f", {n_without} adjudications left out" if n_without else ""
    same = len(entries) - n_changed
    print(
        f"{arguments.project}: {n_changed} labels taken in, {same} were there{left_out}; "
        f"{progress.n_complete} of {progress.n_tasks} tasks have {project.raters_per_task}"
    )
    return 0


def _from_lines(path: Path, content: bytes, _form: FormName) -> tuple[Sequence[Entry], int]:
    entries, n_without = [], 0
    for _, record in decode_lines(content, Line, path, "give task, annotator and label on every line"):
        if record.role == "rater":
            entries.append(Entry(record.task, record.annotator, record.label))
        else:
            n_without += 1
    return entries, n_without


def _from_label_studio(path: Path, content: bytes, form: FormName) -> tuple[Sequence[Entry], int]:
    try:
        return [*label_studio.annotations(msgspec.json.decode(content), form)], 0
    except (LabelError, *UNREADABLE) as exc:
        raise GatewayError(f"{path}: {exc}") from exc
