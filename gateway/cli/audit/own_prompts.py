"""`biasgate audit prompts`: asks a team's own prompts as they are and about other groups, and scores what differs."""

import argparse
from pathlib import Path

from benchmarks.suites import registry
from gateway.cli.audit import run_suites

HELP = """\
FILE has one JSON object a line: {"prompt": TEXT} or {"messages": [...]}, and optionally id, axis, groups, swaps,
cluster, tags (docs/suites.md, "Own prompts"). A prompt without an identity is counted and not asked. A run is completed
by audit run --resume DIR, and compared, gated, reported and bundled like any other.

Example:
  biasgate audit prompts prompts.jsonl --model m --base-url http://127.0.0.1:8000 --embedder minilm --out runs/own
"""

SAMPLES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompts", type=Path, metavar="FILE.jsonl", help="the prompts, one JSON object a line")
    groups = run_suites.add_groups(parser)
    groups.sampling.add_argument(
        "--samples",
        type=int,
        metavar="N",
        default=SAMPLES,
        help=f"replies to each version, at least (and default) {SAMPLES}",
    )
    run_suites.add_asking(groups)
    of_benchmarks = ("mode", "protocol", "data", "mirror", "subset", "precision", "repeat_share", "few_shot")
    parser.set_defaults(suite=registry.OWN.name, evaluate=None, resume=None, **dict.fromkeys(of_benchmarks))


run = run_suites.run
