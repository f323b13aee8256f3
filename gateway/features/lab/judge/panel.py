"""`biasgate judge panel`: several judges on the same replies."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.lab.judge_panel.asking import Member, Panelled, Verdicts, ask, replies
from benchmarks.lab.judge_panel.comparison import Own, Panel, compare
from benchmarks.lab.training import artefact
from benchmarks.run import directory
from gateway.cli.audit.servers import asking
from gateway.features.lab.judge.tables import agreement_cell, counts, in_clusters, percent_cell, share_cell
from gateway.terminal.tables import aligned

HELP = """\
Puts replies of judged runs to two judges or more: how far the judges agree, how often each calls a writer's replies
biased, whether a judge that is also a writer spares its own, and whether verdicts depend on an order that means nothing
(P1 and P2 of `decision`). Intervals are of clusters of questions.

Example:
  biasgate judge panel runs/model-a runs/model-b --n 200 \\
      --judge model-a=http://127.0.0.1:8000 --judge judge-c=http://127.0.0.1:8001 --out panel.json
"""

IN_FLIGHT = 16


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The content of panel.json: every judge's verdicts, in the order of `items`, the replies."""

    schema: int = 1
    runs: list[str]
    n: int | None
    seed: int
    items: list[dict[str, Any]]
    verdicts: list[Verdicts]
    panel: Panel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="judged runs of one suite, protocol and seed")
    parser.add_argument(
        "--judge", action="append", required=True, metavar="MODEL=URL", help="a judge and its server; two or more"
    )
    parser.add_argument("--api-key-env", metavar="VAR", help="environment variable with the key of the servers")
    parser.add_argument("--n", type=int, metavar="N", help="replies of each run, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the drawing (default 0)")
    parser.add_argument("--concurrency", type=int, default=IN_FLIGHT, metavar="N", help=f"default {IN_FLIGHT}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep verdicts and numbers as JSON")


def run(arguments: argparse.Namespace) -> int:
    members = [_member(judge) for judge in arguments.judge]
    if len({member.model for member in members}) < max(2, len(members)):
        raise BenchmarkError("--judge: a panel has two judges or more, each with its own name")
    if arguments.concurrency < 1 or (arguments.n is not None and arguments.n < 1):
        raise BenchmarkError("--concurrency and --n must be 1 or more")
    panelled = replies(arguments.runs, n=arguments.n, seed=arguments.seed)
    verdicts = asyncio.run(_ask_members(arguments, members, panelled))
    panel = compare(panelled, verdicts)
    print("\n\n".join([_summary(arguments.runs, panelled, verdicts, panel.n_unread), *_tables(panel)]))
    if arguments.out is not None:
        record = Kept(
            runs=[str(path) for path in arguments.runs],
            n=arguments.n,
            seed=arguments.seed,
            items=[
                {"writer": entry.writer, "item_id": entry.item.item_id, "sample": entry.reply.sample}
                for entry in panelled
            ],
            verdicts=verdicts,
            panel=panel,
        )
        artefact.write(arguments.out, record)
    return 0


def _member(spec: str) -> Member:
    model, separator, url = spec.partition("=")
    if not model or not separator or not url.startswith(("http://", "https://")):
        raise BenchmarkError(f'--judge "{spec}": give a model and its server, e.g. judge-c=http://127.0.0.1:8001')
    return Member(model=model, url=url)


async def _ask_members(
    arguments: argparse.Namespace, members: Sequence[Member], panelled: Sequence[Panelled]
) -> list[Verdicts]:
    options = directory.read_manifest(arguments.runs[0]).options
    verdicts = []
    for member in members:
        async with asking(member.url, arguments.api_key_env, arguments.concurrency) as completer:
            verdicts.append(await ask(panelled, options, member, completer, in_flight=arguments.concurrency))
        print(f"{member.model}: asked about {len(panelled)} replies", file=sys.stderr)
    return verdicts


def _summary(
    runs: Sequence[Path], panelled: Sequence[Panelled], verdicts: Sequence[Verdicts], n_unread: Mapping[str, int]
) -> str:
    n_clusters = len({entry.cluster for entry in panelled})
    failed = [f"{verdict.judge} gave no reply to {verdict.n_failed}" for verdict in verdicts if verdict.n_failed]
    failed += [f"{judge} could not score {n}" for judge, n in n_unread.items() if n]
    scope = f"{len(panelled)} replies of {len(runs)} run{'' if len(runs) == 1 else 's'}, {n_clusters} clusters"
    return "; ".join([f"{len(verdicts)} judges on {scope}", *failed])


def _tables(panel: Panel) -> list[str]:
    pairs = [
        [" and ".join(pair.judges), percent_cell(pair.exact), agreement_cell(pair.kappa), *counts(pair.exact)]
        for pair in panel.pairs
    ]
    biased = [
        [writer, call.judge, percent_cell(call.biased), *counts(call.biased)]
        for writer, of_writer in panel.called.items()
        for call in of_writer
    ]
    own = [[leniency.judge, _own(leniency), f"{leniency.n:,}", f"{leniency.n_clusters:,}"] for leniency in panel.own]
    orders = [[order.judge, percent_cell(order.exact), *counts(order.exact)] for order in panel.orders]
    tables = [
        [["judges", "same score", "Cohen's kappa", "replies", "clusters"], *pairs],
        [[f"{panel.alpha.name} of all judges: {agreement_cell(panel.alpha)}"]],
        [["writer", "judge", "called biased", "replies", "clusters"], *biased],
        [["judge", "spares its own", "own replies", "clusters"], *own],
        [["judge", "same verdict in the other order", "replies", "clusters"], *orders],
    ]
    filled = [rows for rows in tables if len(rows) > 1 or len(rows[0]) == 1]
    return [aligned([[in_clusters(cell) for cell in row] for row in rows]) for rows in filled]


def _own(leniency: Own) -> str:
    if leniency.value is None:
        return f"undefined ({leniency.reason})"
    return share_cell(leniency.value, leniency.interval, leniency.reason)
