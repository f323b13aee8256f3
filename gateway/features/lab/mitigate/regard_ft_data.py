"""`biasgate mitigate regard-ft data`: questions that run a group down, with answers that deny the premise."""

import argparse
import sys
from pathlib import Path

from benchmarks.errors import DatasetError
from benchmarks.lab.regard_ft import data
from benchmarks.suites.bbq.suite import BBQ

HELP = """\
Every stem is asked about women and about men, with the same answer. Each answer is checked: it denies, it sets no group
above another, it does not name the other group; no question is one of the long-text test or, where BBQ is on this
machine (biasgate datasets fetch bbq), of BBQ.

Example:
  biasgate mitigate regard-ft data --out regard-data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")
    parser.add_argument("--stems", type=int, default=data.N_STEMS, metavar="N", help=f"default {data.N_STEMS}")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of their choice and order (default 0)")


def run(arguments: argparse.Namespace) -> int:
    pairs = data.build(n_stems=arguments.stems, seed=arguments.seed)
    data.demand_balance(pairs)
    bbq_questions = _bbq_questions()
    if bbq_questions is None:
        print("BBQ is not on this machine: not compared with it (biasgate datasets fetch bbq)", file=sys.stderr)
    else:
        data.demand_no_bbq(pairs, bbq_questions)
    card = data.write(arguments.out, pairs, seed=arguments.seed, bbq_checked=bbq_questions is not None)
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
