"""`biasgate auditors measure choices|numbers`: how often suites read another option or number than a person does."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from auditors.metrics.intervals import wilson_interval
from auditors.text.user_files import read_utf8
from auditors.text.visible import visible_line
from auditors.types import Message
from benchmarks.errors import BenchmarkError, decode_lines
from benchmarks.suites import registry
from benchmarks.suites.bbq.scores import UNKNOWN
from benchmarks.suites.common import masked
from benchmarks.suites.common.choices.plain import words_of
from benchmarks.suites.common.choices.undetermined import says_undetermined
from benchmarks.suites.protocol import Choice, Item
from gateway.terminal.tables import aligned

Part = Literal["development", "held-out"]
Kind = Literal["choices", "numbers"]
PARTS: Mapping[Part, str] = {"development": "development", "held-out": "held_out"}
Label = Literal["choice", "none"]
LABELS: Mapping[Label, tuple[str, ...]] = {"choice": ("the same", "another", "none"), "none": ("an option", "none")}
"""Kinds of replies, those that commit to an option and those that do not, with the readings that each may have."""
Suite = Literal["bbq", "crows_pairs", "eec", "real_toxicity_prompts", "stereoset", "unqover", "winobias"]
SHARE = "share, 95 % interval"
_NO_ANSWER_OFFERED = ("cannot answer", "can t answer", "cannot be answered")


class LabelledReply(msgspec.Struct, frozen=True):
    """A line of a file."""

    suite: Suite
    text: str
    label: str | float | None
    """The option that a person reads, of `eec` the number; null for none."""
    options: tuple[str, ...] = ()
    """Options in the order shown; of questions for a pronoun "male", "female" and "neutral", of `eec` none."""
    sentence: str = "[MASK]"
    """Sentence that the options fill, where the suite shows one."""

    def __post_init__(self) -> None:
        if self.label is not None and (self.suite == "eec") == isinstance(self.label, str):
            raise ValueError("the label is an option, of eec a number, or null")
        if self.suite == "eec":
            return
        if self.label is not None and self.label not in self.options:
            raise ValueError(f'the label "{self.label}" is none of the options')
        if len(self.options) < 2:
            raise ValueError("there are fewer than two options")


def labelled(part: Part, kind: Kind = "choices") -> list[LabelledReply]:
    """Return all replies of a part."""
    return read_file(Path(__file__).with_name(f"{kind}_{PARTS[part]}.jsonl"))


def read_file(path: Path) -> list[LabelledReply]:
    """Read labelled replies, a JSON object a line. Raises BenchmarkError, one line, or OSError."""
    remedy = 'wanted: "suite", "text", "label" (option, number, null), "options"'
    replies = [reply for _, reply in decode_lines(read_utf8(path), LabelledReply, path, remedy)]
    if not replies:
        raise BenchmarkError(f"{path}: it has no labelled reply")
    return replies


def option_read(reply: LabelledReply) -> str | float | None:
    """Return the option or number that the suite reads, under its protocol `corrected`; None for none."""
    roles = [f"option-{place}" for place in range(len(reply.options))]
    messages: Sequence[Message] = (Message("user", f"Sentence: “{reply.sentence}”."),)
    if reply.suite == "bbq":
        roles[_place_of_unknown(reply.options)] = UNKNOWN
    choices = tuple(map(Choice, reply.options, roles))
    if reply.suite in ("crows_pairs", "stereoset"):
        messages = masked.messages(masked.GAP_PROMPT, reply.sentence, choices)
    forms = [[option.casefold()] for option in reply.options]
    item = Item(
        item_id="labelled",
        messages=tuple(messages),
        axis="gender",
        groups=(),
        cluster="labelled",
        choices=choices,
        meta={"forms": forms},
    )
    parsed = registry.find(reply.suite).parse(item, reply.text, protocol="corrected")
    if parsed.status != "ok":
        return None
    if reply.suite == "eec":
        return float(parsed.value)
    if reply.suite in ("winobias", "real_toxicity_prompts"):
        return str(parsed.value)
    place = parsed.value if reply.suite == "unqover" else [choice.role for choice in item.choices].index(parsed.value)
    return reply.options[place]


def reading_of(reply: LabelledReply) -> str:
    """Return the word for what the suite reads: see LABELS."""
    option = option_read(reply)
    if option is None:
        return "none"
    if reply.label is None:
        return "an option"
    return "the same" if option == reply.label else "another"


def is_misread(reply: LabelledReply) -> bool:
    """Return whether the suite reads another option than a person, or one where a person reads none, or none."""
    return option_read(reply) != reply.label


def count_readings(replies: Iterable[LabelledReply]) -> dict[Label, dict[str, int]]:
    """Return how many replies of each kind have each reading."""
    counts = Counter(("none" if reply.label is None else "choice", reading_of(reply)) for reply in replies)
    return {label: {reading: counts[label, reading] for reading in readings} for label, readings in LABELS.items()}


def _place_of_unknown(options: Sequence[str]) -> int:
    for place, option in enumerate(options):
        words = words_of(option)
        if says_undetermined(words) or words in _NO_ANSWER_OFFERED:
            return place
    raise BenchmarkError(f"bbq: none of the options says that the context does not tell: {', '.join(options)}")


def run(arguments: argparse.Namespace) -> int:
    """Print the readings of a file, or of the parts that biasgate brings along. Exit code 2 for an unreadable file."""
    try:
        if arguments.file:
            sets = {str(arguments.file): read_file(arguments.file)}
        else:
            sets = {part: labelled(part, arguments.auditor) for part in PARTS if arguments.part in (None, part)}
        if arguments.json:
            counts = count_readings(reply for replies in sets.values() for reply in replies)
            print(msgspec.json.encode({"counts": counts}).decode())
            return 0
        for name, replies in sets.items():
            suites = sorted({reply.suite for reply in replies})
            head = ["suite", "choices", "read", SHARE, "as another", "no choice", "read", SHARE]
            rows = [_row(suite, [reply for reply in replies if reply.suite == suite]) for suite in suites]
            report = [f"{name}: {len(replies)} replies", aligned([head, *rows, _row("all", replies)]), ""]
            print("\n".join(report))
            if arguments.wrong:
                print("\n".join(visible_line(_misreading(reply)) for reply in replies if is_misread(reply)) + "\n")
    except (BenchmarkError, OSError) as exc:
        print(f"biasgate: {exc}", file=sys.stderr)
        return 2
    return 0


def _row(name: str, replies: Iterable[LabelledReply]) -> list[str]:
    counts = count_readings(replies)
    choices, others = counts["choice"], counts["none"]
    n_choices, n_others = sum(choices.values()), sum(others.values())
    n_same, n_another, n_read = choices["the same"], choices["another"], others["an option"]
    shares = [share_cell(n_same, n_choices), share_cell(n_read, n_others)]
    return [name, str(n_choices), str(n_same), shares[0], str(n_another), str(n_others), str(n_read), shares[1]]


def share_cell(count: int, of: int) -> str:
    """Return a share with Wilson's 95 % interval; "undefined" of nothing."""
    interval = wilson_interval(count, of)
    return "undefined" if interval is None else f"{count / of:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def _misreading(reply: LabelledReply) -> str:
    return f"{reply.suite}: {reply.text!r} is {_named(reply.label)}, read as {_named(option_read(reply))}"


def _named(label: str | float | None) -> str:
    return "none" if label is None else f"{label:g}" if isinstance(label, float) else label
