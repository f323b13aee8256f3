"""The cache is $BIASGATE_HOME, default ~/.cache/biasgate. A mirror may also be named by $BIASGATE_DATASETS_MIRROR.

Example:
  biasgate datasets fetch stereoset
  biasgate datasets fetch stereoset --mirror /srv/benchmark-data
  biasgate datasets verify
"""

import argparse
import sys

from benchmarks import datasets
from benchmarks.registry import DATASETS, source
from gateway.cli.audit.tables import aligned
from gateway.cli.mistakes import as_gateway_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|fetch|verify")
    actions.add_parser(
        "list",
        help="data sets, licences, and whether they are here",
        epilog="Example: `biasgate datasets list`.",
    )
    fetch = actions.add_parser(
        "fetch", help="download and verify", epilog="Example: `biasgate datasets fetch stereoset bbq`."
    )
    fetch.add_argument("names", nargs="+", metavar="NAME")
    fetch.add_argument("--mirror", metavar="DIR_OR_URL", help="take the files from a copy instead of the origin")
    verify = actions.add_parser(
        "verify",
        help="hash what is here; exit 1 when anything differs",
        epilog="Example: `biasgate datasets verify`.",
    )
    verify.add_argument("names", nargs="*", metavar="NAME", help="default: all that are here")


def run(arguments: argparse.Namespace) -> int:
    with as_gateway_errors():
        if arguments.action == "fetch":
            return _fetch(arguments.names, arguments.mirror)
        if arguments.action == "verify":
            return _verify(arguments.names)
        return _list()


def _list() -> int:
    states = [datasets.state(known) for _, known in sorted(DATASETS.items())]
    head = ["name", "items", "state", "licence", "title"]
    print(aligned([head, *([s.name, str(s.n_items), s.state, s.licence, s.title] for s in states)]))
    return 0


def _fetch(names: list[str], mirror: str | None) -> int:
    wanted = [source(name) for name in names]
    for known in wanted:
        path = datasets.fetch(known, mirror=mirror, on_progress=_show if sys.stderr.isatty() else None)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        how = "verified" if known.content_sha256 else "complete, not verified (no hash of it is known)"
        print(f"{known.name}: {how}, {path}")
        print(f"{known.name}: licence {known.licence}; use it to evaluate, never to train")
    return 0


def _show(received: int, expected: int | None) -> None:
    of = f" of {expected / 1e6:.1f}" if expected else ""
    print(f"\r\x1b[K{received / 1e6:.1f}{of} MB", end="", file=sys.stderr, flush=True)


def _verify(names: list[str]) -> int:
    states = [datasets.state(source(name)) for name in (names or sorted(DATASETS))]
    for state in states:
        detail = f": expected {state.expected_sha256}, found {state.sha256}" if state.state == "damaged" else ""
        print(f"{state.name}: {state.state}{detail} ({state.path})")
    is_bad = any(state.state == "damaged" or (names and state.state == "absent") for state in states)
    return 1 if is_bad else 0
