"""`biasgate audit import`: a log of another harness as a run directory."""

import argparse
from pathlib import Path
from typing import get_args

from auditors.text.visible import visible_line
from benchmarks.reporting import report
from benchmarks.run import directory
from benchmarks.run.plan import RunOptions
from benchmarks.suites.protocol import DataKind, ProtocolName
from gateway.features.formats.harness_logs import inspect, lm_eval
from gateway.features.formats.harness_logs.importing import imported
from gateway.terminal.tables import estimates_table, summary

HELP = """\
inspect: a log as JSON. lm-eval: samples_TASK_TIME.jsonl, as --log_samples writes it, next to its results_TIME.json.

Items are found by what the questions say. Prompts and settings are the harness's; replies are read and scored here.

Example:
  biasgate audit import --from lm-eval samples_bbq_2026-11-24T02-40-59.022290.jsonl --suite bbq --out runs/imported
"""

READERS = {"inspect": inspect.read, "lm-eval": lm_eval.read}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG")
    parser.add_argument("--from", dest="harness", choices=tuple(READERS), required=True, help="whose log it is")
    parser.add_argument("--suite", required=True, metavar="NAME", help="whose items it asked")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="run directory to make")
    parser.add_argument("--model", help="name for the result (default: the log's)")
    parser.add_argument("--protocol", choices=get_args(ProtocolName), default="corrected", help="of the scores")
    parser.add_argument("--data", choices=get_args(DataKind), default="canonical")


def run(arguments: argparse.Namespace) -> int:
    log = READERS[arguments.harness](arguments.log)
    options = RunOptions(
        suite=arguments.suite,
        model=arguments.model or log.model or "recorded",
        protocol=arguments.protocol,
        data=arguments.data,
    )
    imported_run = imported(log, options)
    directory.create(arguments.out, imported_run.plan, directory.manifest(imported_run.plan))
    directory.write_replies(arguments.out, imported_run.replies)
    directory.finish(arguments.out, imported_run.result, report.render([imported_run.result]))
    origin = imported_run.result.provenance.imported
    left_out = {} if origin is None else origin.left_out
    asked_by = visible_line(f"{log.harness} {log.version}")
    print(f"{arguments.out}: {len(imported_run.replies)} of {len(log.answers)} replies, asked by {asked_by}")
    for reason, count in left_out.items():
        print(visible_line(f"left out: {count}: {reason}"))
    print(f"\n{summary(imported_run.result)}\n\n{estimates_table(imported_run.result)}")
    return 0
