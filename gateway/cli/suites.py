"""`biasgate suites`: lists the benchmark suites, or writes the items of a suite to a file."""

import argparse
from pathlib import Path
from typing import get_args

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.run.runner import RunOptions, prepare
from benchmarks.suites import registry
from benchmarks.suites.common import mitigation
from benchmarks.suites.protocol import DataKind, ProtocolName
from gateway.terminal.tables import aligned

HELP = """\
Without options: a table of suites, their data and what they measure.

Example:
  biasgate suites
  biasgate suites --items stereoset --data embedded --out items.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the whole catalogue as JSON")
    parser.add_argument("--items", metavar="NAME", help="write the items of a suite; runs nothing")
    parser.add_argument("--protocol", choices=get_args(ProtocolName), default="corrected")
    parser.add_argument("--data", choices=get_args(DataKind), default="canonical")
    parser.add_argument("--seed", type=int, default=0, help="orders the choices (default 0)")
    parser.add_argument(
        "--mitigation",
        default=mitigation.NONE,
        metavar="none|abstract|detailed|FILE",
        help="sentence added to every question of --items (default none)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where --items writes JSON lines")


def run(arguments: argparse.Namespace) -> int:
    if arguments.items:
        return _write_items(arguments)
    infos = registry.catalogue()
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(infos), indent=2).decode())
    else:
        print(aligned([_HEAD, *(_row(info) for info in infos)]))
    return 0


_HEAD = ["suite", "version", "items", "canonical data", "modes", "protocols", "metrics", "licence"]


def _row(info: registry.SuiteInfo) -> list[str]:
    items = ", ".join(f"{count} {kind}" for kind, count in info.items.items())
    data = info.data if info.data != "absent" else f"absent: biasgate datasets fetch {info.name}"
    listed = [", ".join(names) for names in (info.modes, info.protocols, info.metrics)]
    return [info.name, info.version, items, data, *listed, info.licence]


def _write_items(arguments: argparse.Namespace) -> int:
    if arguments.out is None:
        raise BenchmarkError("suites --items needs --out FILE")
    added = mitigation.find(arguments.mitigation)
    options = RunOptions(
        suite=arguments.items,
        model="",
        protocol=arguments.protocol,
        data=arguments.data,
        seed=arguments.seed,
        mitigation=added.name,
        mitigation_text=added.text,
    )
    plan = prepare(options)
    try:
        directory.write_items(arguments.out, plan.items)
    except OSError as exc:
        raise BenchmarkError(f"{arguments.out}: cannot be written: {exc.strerror}") from exc
    print(f"{len(plan.items)} items of {plan.suite.name} {plan.suite.version} ({plan.dataset.name}) in {arguments.out}")
    return 0
