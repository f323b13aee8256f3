"""`biasgate datasets`: lists, downloads and verifies the published benchmark data."""

import argparse
import sys

from benchmarks.datasets import fetching, published
from benchmarks.suites.registry import datasets, source
from gateway.terminal.progress import download_bar
from gateway.terminal.tables import aligned

HELP = """\
The cache is $BIASGATE_HOME, default ~/.cache/biasgate. A mirror may also be named by $BIASGATE_DATASETS_MIRROR.

Example:
  biasgate datasets fetch stereoset
  biasgate datasets fetch stereoset --mirror /srv/benchmark-data
  biasgate datasets verify
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|fetch|verify")
    actions.add_parser(
        "list", help="data sets, licences, and whether they are here", epilog="Example: `biasgate datasets list`."
    )
    fetch = actions.add_parser(
        "fetch", help="download and verify", epilog="Example: `biasgate datasets fetch stereoset bbq`."
    )
    fetch.add_argument("names", nargs="+", metavar="NAME")
    fetch.add_argument("--mirror", metavar="DIR_OR_URL", help="take the files from a copy instead of the origin")
    verify = actions.add_parser(
        "verify", help="hash what is here; exit 1 when anything differs", epilog="Example: `biasgate datasets verify`."
    )
    verify.add_argument("names", nargs="*", metavar="NAME", help="default: all that are here")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "fetch":
        return _fetch(arguments.names, arguments.mirror)
    if arguments.action == "verify":
        return _verify(arguments.names)
    states = [published.state(dataset) for _, dataset in sorted(datasets().items())]
    head = ["name", "items", "state", "licence", "title"]
    print(aligned([head, *([s.name, str(s.n_items), s.state, s.licence, s.title] for s in states)]))
    return 0


def _fetch(names: list[str], mirror: str | None) -> int:
    sources = [source(name) for name in names]
    for dataset in sources:
        with download_bar(sys.stderr) as on_progress:
            path = fetching.fetch(dataset, mirror=mirror, on_progress=on_progress)
        digest = published.state(dataset).sha256
        trusted = f"complete; no hash of it is published: trusted at first contact, from now on held to {digest}"
        print(f"{dataset.name}: {'verified' if dataset.content_sha256 else trusted}, {path}")
        print(f"{dataset.name}: licence {dataset.licence}; use it to evaluate, never to train")
    return 0


def _verify(names: list[str]) -> int:
    states = [published.state(source(name)) for name in (names or sorted(datasets()))]
    for state in states:
        detail = f": expected {state.expected_sha256}, found {state.sha256}" if state.state == "damaged" else ""
        print(f"{state.name}: {state.state}{detail} ({state.path})")
    is_bad = any(state.state == "damaged" or (names and state.state == "absent") for state in states)
    return 1 if is_bad else 0
