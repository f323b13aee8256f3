"""`biasgate mitigate regard-ft data`: questions that run a group down, with answers that deny the premise."""

import argparse
import sys
from pathlib import Path

from benchmarks.errors import BenchmarkError, DatasetError
from benchmarks.lab.regard_ft import data
from benchmarks.suites.bbq.suite import BBQ

HELP = """\
Every stem is asked about women and about men, with the same answer. Each answer is checked: it denies, it sets no group
above another, it does not name the other group; no question is one of the long-text test or, where BBQ is on this
machine (biasgate datasets fetch bbq), of BBQ. --own: pairs of your own, of any axis, one JSON object a line.

Example:
  biasgate mitigate regard-ft data --out regard-data
  biasgate mitigate regard-ft data --own pairs.jsonl --out own-data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")
    parser.add_argument("--own", type=Path, metavar="FILE.jsonl", help=f"your own: {data.OWN_LINE}")
    parser.add_argument("--stems", type=int, metavar="N", help=f"of ours (default {data.N_STEMS})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of their choice and order (default 0)")


def run(arguments: argparse.Namespace) -> int:
    own_sha256 = None
    if arguments.own is not None:
        if arguments.stems is not None:
            raise BenchmarkError(f"--stems {arguments.stems}: --own takes every line of the file: leave --stems out")
        pairs, own_sha256 = data.read_own(arguments.own)
    else:
        pairs = data.build(n_stems=data.N_STEMS if arguments.stems is None else arguments.stems, seed=arguments.seed)
    data.demand_balance(pairs)
    bbq_questions = _bbq_questions()
    if bbq_questions is None:
        print("BBQ is not on this machine: not compared with it (biasgate datasets fetch bbq)", file=sys.stderr)
    else:
        data.demand_no_bbq(pairs, bbq_questions)
    is_checked = bbq_questions is not None
    card = data.write(arguments.out, pairs, seed=arguments.seed, bbq_checked=is_checked, own_sha256=own_sha256)
    groups = ", ".join(f"{n} about {group}" for group, n in card.by_group.items())
    print(f"{arguments.out}: {card.n_pairs} questions with answers of {card.n_stems} stems: {groups}")
    print("every answer denies, compares no groups, names one group; no question is one of the long-text test")
    return 0


def _bbq_questions() -> list[str] | None:
    """Return the questions and contexts of BBQ; None where the published items are not on this machine."""
    try:
        records = BBQ().load("canonical").records
    except DatasetError:
        return None
    return sorted({text for record in records for text in (record["question"], record["context"])})
