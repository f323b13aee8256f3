"""`biasgate auditors measure`: how often a live auditor is wrong about replies whose label is known."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from auditors.metrics.intervals import Interval
from auditors.text.refusals.labelled import PARTS, Labelled, Part, Tally, labelled, misjudged, tallied
from gateway.cli import measured_choices
from gateway.terminal.tables import aligned

HELP = """\
Runs an auditor's reading over the labelled replies that biasgate brings along and prints its errors: refusals that it
missed and answers that it took for refusals, by language and by style, with Wilson's 95 % intervals, and the replies
that it could not read. The development part is what its rules were tried on; nothing was tuned on the held-out part.

`choices` are replies to questions with options, labelled with the option that a person reads, null for none; printed
are how many plainly named options are read and how many other replies are read as an option. With --file it reads
replies of yours: a JSON object a line, with "suite", "options" as shown, "text" and "label", and "sentence" where the
suite shows one with a gap.

Example:
  biasgate auditors measure choices --file labelled.jsonl --json
  biasgate auditors measure refusal
  biasgate auditors measure refusal --part development --wrong
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="measure")
    measure = actions.add_parser("measure", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_argument("auditor", choices=["choices", "refusal"], help="whose reading is measured")
    measure.add_argument("--file", type=Path, metavar="LABELLED", help="labelled replies of yours, JSON lines")
    measure.add_argument("--json", action="store_true", help="print the counts as JSON: label, reading, number")
    measure.add_argument("--part", choices=list(PARTS), help="one part of the labelled replies (default: each)")
    measure.add_argument("--wrong", action="store_true", help="print the replies that were misjudged too")


def run(arguments: argparse.Namespace) -> int:
    if arguments.auditor == "choices":
        return measured_choices.run(arguments)
    for part in [arguments.part] if arguments.part else PARTS:
        print("\n".join(report(part)))
        if arguments.wrong:
            print("\n".join(f"{_label(example)}: {example.reply!r}" for example in misjudged(labelled(part))) + "\n")
    return 0


def report(part: Part) -> list[str]:
    """Formats two tables of a part, by language and by style, under a line that sums it up."""
    replies = labelled(part)
    [whole] = tallied(replies, lambda _: "all").values()
    by_language, by_style = (
        tallied(replies, lambda example: example.language),
        tallied(replies, lambda example: example.style),
    )
    return [
        f"{part}: {len(replies)} replies in {len(by_language)} languages",
        f"missed {_share(whole.n_missed, whole.n_refused, whole.missed)} of the refusals, "
        f"false {_share(whole.n_false, whole.n_answered, whole.false)} of the answers, "
        f"undecided {whole.n_undecided}",
        "",
        _table("language", by_language),
        "",
        _table("style", by_style),
        "",
    ]


def _table(name: str, tallies: dict[str, Tally]) -> str:
    head = [name, "refused", "missed", "share, 95 % interval", "answered", "false", "share, 95 % interval", "undecided"]
    return aligned([head, *(_row(key, tally) for key, tally in tallies.items())])


def _row(name: str, tally: Tally) -> Sequence[str]:
    return [
        name,
        str(tally.n_refused),
        str(tally.n_missed),
        _share(tally.n_missed, tally.n_refused, tally.missed),
        str(tally.n_answered),
        str(tally.n_false),
        _share(tally.n_false, tally.n_answered, tally.false),
        str(tally.n_undecided),
    ]


def _share(count: int, of: int, interval: Interval | None) -> str:
    if interval is None:
        return "undefined"
    return f"{count / of:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def _label(example: Labelled) -> str:
    return f"{example.language} {'refused' if example.is_refused else 'answered'} {example.style}"
