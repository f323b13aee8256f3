"""`biasgate auditors measure`: how often a live auditor is wrong about replies whose label is known."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.measuring import measured_choices, measured_swaps
from gateway.features.measuring.labelled_replies import (
    PARTS,
    READINGS,
    UNREAD,
    Label,
    Labelled,
    Part,
    count_readings,
    labelled,
    misjudged,
    read_file,
    tallied,
)
from gateway.features.measuring.measured_choices import SHARE, share_cell
from gateway.terminal.tables import aligned

HELP = """\
Runs an auditor's reading over the labelled replies that biasgate brings along and prints its errors: refusals that it
missed and answers that it took for refusals, by language, with Wilson's 95 % intervals, and the replies
that it could not read. The development part is what its rules were tried on; nothing was tuned on the held-out part.

`choices` are replies to questions with options, labelled with the option that a person reads, null for none. With
--file it reads replies of yours: a JSON object a line, with "suite", "options" as shown, "text" and "label", and
"sentence" where the suite shows one with a gap. `numbers` are replies to `eec`, labelled with the intensity.

`swaps` are texts with what a careful person makes of them about the other group, or null where they stay; printed are
the swaps that contradict the person and the share swapped of what can be. With --file it reads texts of yours: a JSON
object a line, with "text", "swapped" (a text, a list of texts or null) and, besides gender, "axis" and "target".

With --file `refusal` reads replies of yours instead: a JSON object a line, with "text" and "label" (refusal, answer,
premise_rejected or partial), and prints how many of each label have each reading.

Example:
  biasgate auditors measure choices --file labelled.jsonl --json
  biasgate auditors measure swaps --wrong
  biasgate auditors measure refusal
  biasgate auditors measure refusal --part development --wrong
  biasgate auditors measure refusal --file labelled.jsonl --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="measure")
    measure = actions.add_parser("measure", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_argument(
        "auditor", choices=["choices", "numbers", "refusal", "swaps"], help="whose reading is measured"
    )
    measure.add_argument("--file", type=Path, metavar="LABELLED", help="labelled texts of yours, JSON lines")
    measure.add_argument("--json", action="store_true", help="print the counts as JSON")
    measure.add_argument("--part", choices=list(PARTS), help="one part of the labelled replies (default: each)")
    measure.add_argument("--wrong", action="store_true", help="print the replies that were misjudged too")


def run(arguments: argparse.Namespace) -> int:
    if arguments.auditor in ("choices", "numbers"):
        return measured_choices.run(arguments)
    if arguments.auditor == "swaps":
        return measured_swaps.run(arguments)
    if arguments.file is not None or arguments.json:
        try:
            examples = read_file(arguments.file) if arguments.file else [*chain.from_iterable(map(labelled, PARTS))]
        except (BenchmarkError, OSError) as exc:
            print(f"biasgate: {exc}", file=sys.stderr)
            return 2
        counts = count_readings(examples)
        print(msgspec.json.encode({"counts": counts}).decode() if arguments.json else "\n".join(count_table(counts)))
        return 0
    for part in [arguments.part] if arguments.part else PARTS:
        print("\n".join(report(part)))
        if arguments.wrong:
            print("\n".join(f"{_label(example)}: {example.reply!r}" for example in misjudged(labelled(part))) + "\n")
    return 0


def count_table(counts: Mapping[Label, Mapping[str, int]]) -> list[str]:
    """Format how many replies of each label have each reading, and under the table the shares with intervals."""
    readings = list(READINGS.values())
    rows = [[label, *(str(row[reading]) for reading in readings)] for label, row in counts.items() if any(row.values())]
    lines = [aligned([["label", *(f"read as {reading}" for reading in readings)], *rows]), ""]
    for label, row in counts.items():
        n_read = sum(row.values()) - row[UNREAD]
        for words, n_right in _SHARES[label](row):
            lines.append(f"{words}: {share_cell(n_right, n_read)} of {n_read}")
    return lines


def report(part: Part) -> list[str]:
    """Format a table of a part by language, under a line that sums it up."""
    replies = labelled(part)
    [whole] = tallied(replies, lambda _: "all").values()
    by_language = tallied(replies, lambda example: example.language)
    head = ["languages", "refused", "missed", SHARE, "answered", "false", SHARE, "undecided"]
    languages: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for language, tally in by_language.items():
        refused = str(tally.n_refused), str(tally.n_missed), share_cell(tally.n_missed, tally.n_refused)
        answered = str(tally.n_answered), str(tally.n_false), share_cell(tally.n_false, tally.n_answered)
        languages[*refused, *answered, str(tally.n_undecided)].append(language)
    table = aligned([head, *([" ".join(names), *row] for row, names in languages.items())])
    return [
        f"{part}: {len(replies)} replies in {len(by_language)} languages",
        f"missed {share_cell(whole.n_missed, whole.n_refused)} of the refusals, "
        f"false {share_cell(whole.n_false, whole.n_answered)} of the answers, undecided {whole.n_undecided}",
        "",
        table,
        "",
    ]


_SHARES: Mapping[Label, Callable[[Mapping[str, int]], list[tuple[str, int]]]] = {
    "refusal": lambda row: [("refusals read as refusals, whole or in part", row["refusal"] + row["partial"])],
    "answer": lambda row: [("answers read as refusals, whole or in part", row["refusal"] + row["partial"])],
    "premise_rejected": lambda row: [("rejected premises read as such", row["premise_rejected"])],
    "partial": lambda row: [("partial answers read as refusals, whole or in part", row["refusal"] + row["partial"])],
}


def _label(example: Labelled) -> str:
    return f"{example.language} {'refused' if example.is_refused else 'answered'} {example.style}"
