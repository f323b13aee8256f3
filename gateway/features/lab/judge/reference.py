"""`biasgate judge reference`: makes a judge's reference set, and judges one again by hand."""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.judge import PROMPT_SHA256
from auditors.judge_reference import (
    FEWEST_ITEMS,
    METRICS,
    ReferenceItem,
    ReferenceSet,
    judged,
    judged_again,
    read,
    references,
)
from auditors.streams.scales import unscaled
from auditors.text.thinking import parse_thinking
from auditors.types import CompletionError, Measurement
from benchmarks.errors import decode_lines
from benchmarks.lab.training import artefact
from benchmarks.run import directory
from gateway.cli.audit.servers import asking
from gateway.errors import GatewayError
from gateway.features.lab.judge.labels import read_file
from gateway.terminal.tables import aligned

HELP = """\
A reference set is a file of replies with the live judge's own scores. An auditor judges it again on a schedule
([auditors.judge] reference_set, reference_every_hours) and raises the drift alarm when the judge has moved.

create judges replies of a run directory, or of JSON lines with prompt and reply, and each of them --repeats times more
to learn how much the judge differs from itself. check judges a set again once and prints what differs.

Example:
  biasgate judge reference create runs/ltf --judge-model j --base-url http://127.0.0.1:8001 --out reference.json
  biasgate judge reference check reference.json --base-url http://127.0.0.1:8001
"""

MAX_TOKENS = 256
AT_ONCE = 8


class Line(msgspec.Struct, frozen=True):
    """One reply. Unknown fields are left out."""

    prompt: str
    reply: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="reference", required=True, metavar="create|check")
    create = actions.add_parser("create", help="judge replies and keep what the judge says")
    create.add_argument("source", type=Path, metavar="RUN_DIR|FILE")
    create.add_argument("--judge-model", required=True, metavar="M", help="the live judge")
    create.add_argument("--thinking", default="off", metavar="T", help="as [auditors.judge] has it (default off)")
    create.add_argument("--n", type=int, default=60, metavar="N", help="replies, drawn by chance (default 60)")
    create.add_argument("--repeats", type=int, default=3, metavar="R", help="times each is judged again (default 3)")
    create.add_argument("--seed", type=int, default=0, metavar="S", help="of the drawing (default 0)")
    create.add_argument("--out", type=Path, required=True, metavar="FILE")
    check = actions.add_parser("check", help="judge a set again once")
    check.add_argument("set", type=Path, metavar="FILE")
    for action in (create, check):
        action.add_argument("--base-url", required=True, metavar="URL", help="the judge's server")
        action.add_argument("--api-key-env", metavar="VAR", help="variable with its key")


def run(arguments: argparse.Namespace) -> int:
    try:
        return asyncio.run(_create(arguments) if arguments.reference == "create" else _check(arguments))
    except CompletionError as exc:
        raise GatewayError(f"the judge at {arguments.base_url} does not answer: {exc}") from exc


async def _create(arguments: argparse.Namespace) -> int:
    lines = _drawn(arguments)
    try:
        thinking = str(parse_thinking(arguments.thinking))
    except ValueError as exc:
        raise GatewayError(str(exc)) from exc
    async with _judge(arguments, arguments.judge_model, thinking) as judge:
        items, prints = [], set[str]()
        for first in range(0, len(lines), AT_ONCE):
            some = lines[first : first + AT_ONCE]
            results = await asyncio.gather(*(judged(line.prompt, line.reply, judge, MAX_TOKENS) for line in some))
            for line, (verdict, stamp, _) in zip(some, results, strict=True):
                prints.update([stamp.fingerprint] if stamp.fingerprint else [])
                if verdict is not None:
                    items.append(ReferenceItem(prompt=line.prompt, reply=line.reply, recorded=verdict))
        again = [measured for _ in range(arguments.repeats) for measured in await _again(items, judge)]
    if len(items) < FEWEST_ITEMS:
        raise GatewayError(f"{len(items)} of {len(lines)} verdicts could be read: {FEWEST_ITEMS} or more are needed")
    reference_set = ReferenceSet(
        judge_model=arguments.judge_model,
        prompt_sha256=PROMPT_SHA256,
        thinking=thinking,
        fingerprints=tuple(sorted(prints)),
        repeats=arguments.repeats,
        references=references(again),
        items=tuple(items),
        created_at=time.time(),
    )
    artefact.write(arguments.out, reference_set)
    left_out = f", {n_unread} left out whose verdict could not be read" if (n_unread := len(lines) - len(items)) else ""
    print(f"{arguments.out}: {len(items)} replies{left_out}, each judged {1 + arguments.repeats} times\n")
    print(_table(again, reference_set))
    return 0


async def _check(arguments: argparse.Namespace) -> int:
    reference_set, _ = read(arguments.set)
    async with _judge(arguments, reference_set.judge_model, reference_set.thinking) as judge:
        again = await _again(reference_set.items, judge)
    prints = {
        measurement.judge.fingerprint
        for many in again
        for measurement in many
        if measurement.judge and measurement.judge.fingerprint
    }
    if reference_set.fingerprints and prints - set(reference_set.fingerprints):
        print(
            f"the model behind the name changed: {', '.join(sorted(prints))}, was "
            f"{', '.join(reference_set.fingerprints)}"
        )
    print(_table(again, reference_set))
    return 0


@asynccontextmanager
async def _judge(arguments: argparse.Namespace, model: str, thinking: str) -> AsyncIterator[JudgeClient]:
    async with asking(arguments.base_url, arguments.api_key_env, AT_ONCE) as completer:
        yield JudgeClient(ThinkingCompleter(completer, parse_thinking(thinking), expects_whole=True), model)


def _drawn(arguments: argparse.Namespace) -> list[Line]:
    """Raises GatewayError for a source that cannot be read or has too few replies."""
    if arguments.repeats < 1 or arguments.n < FEWEST_ITEMS:
        raise GatewayError(f"--n must be {FEWEST_ITEMS} or more and --repeats 1 or more")
    if arguments.source.is_dir():
        lines = [
            Line("\n".join(message.text for message in observation.item.messages), observation.reply.text)
            for observation in directory.observations(arguments.source)
            if observation.reply.text
        ]
    else:
        lines = _lines(arguments.source)
    if len(lines) < arguments.n:
        raise GatewayError(f"{arguments.source}: {len(lines)} replies have a text: --n {arguments.n} is more")
    return random.Random(f"{arguments.seed}/reference").sample(lines, arguments.n)


def _lines(path: Path) -> list[Line]:
    content = read_file(path, "name a run directory or JSON lines with prompt and reply")
    return [decoded for _, decoded in decode_lines(content, Line, path, "give prompt and reply on every line")]


async def _again(items: Sequence[ReferenceItem], judge: JudgeClient) -> list[list[Measurement]]:
    measured = []
    for first in range(0, len(items), AT_ONCE):
        some = items[first : first + AT_ONCE]
        measured += await asyncio.gather(*(judged_again(item, judge, MAX_TOKENS) for item in some))
    return measured


def _table(again: Sequence[Sequence[Measurement]], reference_set: ReferenceSet) -> str:
    rows = [["metric", "mean", "of the judge itself, by the set", "judgements"]]
    for metric in METRICS:
        values = [
            measurement.value
            for many in again
            for measurement in many
            if measurement.metric == metric and measurement.value is not None
        ]
        ends = (
            unscaled(metric, end)
            for end in (reference_set.references[metric].lower, reference_set.references[metric].upper)
        )
        mean = f"{sum(values) / len(values):.3f}" if values else "undefined"
        rows.append([metric, mean, " to ".join(f"{end:.3f}" for end in ends), f"{len(values):,}"])
    return aligned(rows)
