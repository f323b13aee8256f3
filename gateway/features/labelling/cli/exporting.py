"""`biasgate annotate export`: labels for `judge calibrate`, or tasks for Label Studio."""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from gateway.cli.actions import write_file
from gateway.cli.opening import opened
from gateway.errors import GatewayError
from gateway.features.labelling import label_studio, labels
from gateway.features.labelling.projects import Project

HELP = """\
jsonl: a line each label, with the judge's verdict on the same reply. label-studio: the tasks to import there, without
any score; label-studio-config: the labelling interface of the project there.

Example:
  biasgate annotate export --project essays --out labels.jsonl
  biasgate annotate export --project essays --format label-studio --out tasks.json
  biasgate annotate export --project essays --format label-studio-config --out interface.xml
"""

FORMATS = ("jsonl", "label-studio", "label-studio-config")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", required=True, metavar="NAME", help="which project")
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="what to write (default jsonl)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to (default: the standard output)")


def run(arguments: argparse.Namespace) -> int:
    content, summary = asyncio.run(_read(arguments))
    if arguments.out is None:
        if sys.stdout.isatty():  # a terminal obeys characters that JSON leaves as they are
            sys.stdout.write(content.decode())
        else:
            sys.stdout.buffer.write(content)
        return 0
    write_file(arguments.out, content)
    print(f"{arguments.out}: {summary}")
    return 0


async def _read(arguments: argparse.Namespace) -> tuple[bytes, str]:
    async with opened(arguments) as database:
        project, labelled_tasks = await labels.labelled(database, arguments.project)
        match arguments.format:
            case "jsonl":
                lines = await labels.lines(database, arguments.project)
                states = [labelled_task.consensus.state for labelled_task in labelled_tasks]
                raters = {label.by for labelled_task in labelled_tasks for label in labelled_task.labels}
                n_labels = sum(len(labelled_task.labels) for labelled_task in labelled_tasks)
                counts = ", ".join(
                    f"{states.count(state)} {state}" for state in ("agreed", "disputed", "adjudicated", "open")
                )
                n_tasks = len(labelled_tasks)
                each = f"{project.raters_per_task} each: {counts}"
                progress = f"{n_labels} labels by {len(raters)} raters of {n_tasks} tasks, {each}"
                return b"".join(msgspec.json.encode(line) + b"\n" for line in lines), progress
            case "label-studio":
                _require_texts(project)
                tasks = list(label_studio.tasks(labelled_task.task for labelled_task in labelled_tasks))
                return msgspec.json.format(msgspec.json.encode(tasks), indent=1) + b"\n", f"{len(tasks)} tasks"
            case _:
                _require_texts(project)
                n_texts = max(
                    (len(labelled_task.task.shown.get("texts", ())) for labelled_task in labelled_tasks), default=0
                )
                return label_studio.configuration(project.form, n_texts).encode(), f"the form {project.form}"


def _require_texts(project: Project) -> None:
    if "live" in project.about:
        raise GatewayError(f'"{project.name}" is of live exchanges, whose text stays in the store: use annotate serve')
