"""`biasgate audit score`: scores replies that were recorded elsewhere."""

import argparse
import asyncio
from pathlib import Path
from typing import get_args

from auditors.clients.embedders import load_embedder
from auditors.judge_validation import Validation
from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from benchmarks.reporting import report
from benchmarks.run import directory
from benchmarks.run.follow_up import embedded
from benchmarks.run.plan import Key, Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.score import provenance_of, read_recorded, score
from benchmarks.suites.common import mitigation
from benchmarks.suites.protocol import DataKind, Mode, ProtocolName, Reply
from gateway.cli.audit import validations
from gateway.cli.audit.jobs import THIRD_OPTION_HELP, extra_body, own_questions
from gateway.terminal.tables import estimates_table, summary

HELP = """\
A line needs item_id and text, or choice_probabilities in mode exact.

Ids and prompts come from `biasgate suites --items`.

Example:
  biasgate suites --items stereoset --out items.jsonl
  biasgate audit score --suite stereoset --responses replies.jsonl --out runs/recorded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", metavar="NAME")
    parser.add_argument("--responses", type=Path, metavar="FILE.jsonl", help="one reply a line: item_id, text, sample")
    parser.add_argument("--model", default="recorded", help='model name for the result (default "recorded")')
    parser.add_argument("--mode", choices=get_args(Mode), help="default: exact if every line has choice_probabilities")
    parser.add_argument("--protocol", choices=get_args(ProtocolName), default="corrected")
    parser.add_argument("--data", choices=get_args(DataKind), default="canonical")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed the prompts were rendered with: it orders the choices"
    )
    parser.add_argument("--embedder", metavar="NAME_OR_DIR", help="for suites that compare texts by embedding")
    parser.add_argument(
        "--mitigation",
        default=mitigation.NONE,
        metavar="none|abstract|detailed|FILE",
        help="what was added to the prompts of these replies (default none)",
    )
    parser.add_argument(
        "--thinking", default="default", metavar="off|on|budget=N|default", help="what the model was told"
    )
    parser.add_argument("--extra-body", metavar="JSON", help="further fields that every request had")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="the own file that was asked, if any")
    parser.add_argument("--third-option", dest="prompts", type=Path, metavar="neutral|FILE", help=THIRD_OPTION_HELP)
    validations.add_arguments(parser.add_argument_group("judge"))
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a run directory")


def run(arguments: argparse.Namespace) -> int:
    for name in ("suite", "responses"):
        if not getattr(arguments, name):
            raise BenchmarkError(f"audit score needs --{name}; see biasgate audit score --help")
    recorded = directory.read_recorded(arguments.responses)
    samples = directory.n_samples(arguments.responses.parent)
    if samples is not None:
        recorded = [reply for reply in recorded if reply.sample < samples]
    if not recorded:
        raise BenchmarkError(f"{arguments.responses}: holds no reply")
    added = mitigation.find(arguments.mitigation)
    options = RunOptions(
        suite=arguments.suite,
        model=arguments.model,
        protocol=arguments.protocol,
        data=arguments.data,
        seed=arguments.seed,
        embedder=arguments.embedder,
        thinking=arguments.thinking,
        mode=arguments.mode or ("exact" if all(reply.choice_probabilities for reply in recorded) else "sample"),
        extra_body=None if arguments.extra_body is None else extra_body(arguments.extra_body),
        prompts=None
        if arguments.prompts is None
        else own_questions(arguments.prompts, arguments.suite, arguments.data),
        mitigation=added.name,
        mitigation_text=added.text,
        samples=1 + max(reply.sample for reply in recorded),
    )
    plan = prepare(options)
    plan, replies = read_recorded(plan, recorded, where=str(arguments.responses))
    validation = validations.find(arguments)
    result = _scored(plan, replies, arguments.embedder, validation)
    if arguments.out is not None:
        directory.create(arguments.out, plan, directory.manifest(plan))
        directory.write_replies(arguments.out, list(replies.values()))
        directory.finish(arguments.out, result, report.render([result]))
    missing = plan.total - len(replies)
    print(", ".join(f"{name} {count}" for name, count in result.counts.items()))
    if missing:
        print(f"{missing} of {plan.total} replies are not in the file and are in no number")
    for note in filter(None, (result.length_note, result.filter_note)):
        print(visible_line(note))
    if result.thinking_fault:
        print(visible_line(f"no headline number: {result.thinking_fault}"))
    if result.judge_fault:
        print(visible_line(f"judge not validated: {result.judge_fault}"))
    for warning in result.judge_warnings:
        print(visible_line(warning))
    print(f"\n{summary(result)}\n\n{estimates_table(result)}")
    return 0


def _scored(plan: Plan, replies: dict[Key, Reply], embedder_name: str | None, validation: Validation | None) -> Result:
    if embedder_name is None:
        return score(plan, replies, provenance_of(plan, replies, judge_validation=validation))
    embedder = load_embedder(embedder_name)
    changed = asyncio.run(embedded(plan, replies, embedder))
    replies |= {(reply.item_id, reply.sample): reply for reply in changed}
    embedded_by = embedder.name if changed else None
    return score(plan, replies, provenance_of(plan, replies, embedder=embedded_by, judge_validation=validation))
