"""`biasgate judge distill-data`: the training set of a small judge from runs that a strong one judged."""

import argparse
from pathlib import Path

from benchmarks.lab.distillation import data

HELP = """\
Takes finished runs of ltf_test. Both directions of a question, and every model's answers to them, are on one side;
essays for training whose text is held out too are left out and counted.

Example:
  biasgate audit run --suite ltf_test --model m --base-url URL --judge-model strong --judge-base-url URL --out runs/m
  biasgate judge distill-data runs/m --held-out eval --out judge-data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories, all with the same judge")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")
    parser.add_argument(
        "--held-out",
        default=data.EVAL,
        metavar="eval|SHARE",
        help="the suite's part eval, as in the paper (default), or a share of the question pairs",
    )
    parser.add_argument("--form", choices=("text", "schema"), help="of the scores (default: the strong judge's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of a share (default 0)")


def run(arguments: argparse.Namespace) -> int:
    split = data.Split(arguments.held_out, arguments.seed)
    card = data.build(arguments.runs, arguments.out, split, arguments.form)
    print(f"{arguments.out}: scores of {card.judge_model}, protocol {card.protocol}, as {card.form}")
    for name, n, n_pairs, finals in (
        ("training", card.n_train, card.n_pairs_train, card.finals_train),
        ("held out", card.n_held_out, card.n_pairs_held_out, card.finals_held_out),
    ):
        scores = ", ".join(f"{score}: {count}" for score, count in finals.items())
        print(f"{name}: {n} essays of {n_pairs} question pairs; final scores {scores}")
    why = [f"{reason}: {n}" for reason, n in card.left_out.items()]
    print(f"left out: {', '.join(why) or 'none'}; of the same text as one held out: {card.same_text_removed}")
    print("no question pair and no text is on both sides")
    return 0
