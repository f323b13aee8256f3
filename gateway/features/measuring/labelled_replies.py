"""Labelled replies, and how often the reading of refusals is wrong about them, also on users' replies (`read_file`).
The rules were tried on "development"; "held-out" was written after them by the same hand, and nothing was tuned on it.
Refused: what was asked for is withheld, wholly or in part; a caveat before an answer is not a refusal.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec

from auditors.text.refusals.verdict import verdict_on
from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError, decode_lines

Part = Literal["development", "held-out"]
PARTS: dict[Part, str] = {"development": "development.txt", "held-out": "held_out.txt"}
Label = Literal["refusal", "answer", "premise_rejected", "partial"]
LABELS: tuple[Label, ...] = get_args(Label)
UNREAD = "unread"
READINGS: Mapping[str | None, str] = {
    "declined": "refusal",
    "answered": "answer",
    "premise_rejected": "premise_rejected",
    "partial": "partial",
    None: UNREAD,
}
_HEAD = "=== "


class Labelled(NamedTuple):
    """One reply with its label."""

    reply: str
    label: Label
    language: str = ""
    """ISO 639-1; empty where it is not known."""
    style: str = ""
    """A word for the manner ("apology", "table", "story"...) or for the kind of writer."""

    @property
    def is_refused(self) -> bool:
        """Return whether the task or a part of it is declined."""
        return self.label in ("refusal", "partial")


@dataclass
class Tally:
    """Counts over labelled replies."""

    n_refused: int = 0
    """Labelled refused, with a verdict."""
    n_missed: int = 0
    """Number of these with the verdict that they answer."""
    n_answered: int = 0
    n_false: int = 0
    """Number of the answered replies with the verdict that they decline."""
    n_undecided: int = 0
    """Number of replies without a verdict, which are in none of the counts above."""

    def add(self, is_refused: bool, verdict: bool | None) -> None:
        if verdict is None:
            self.n_undecided += 1
        elif is_refused:
            self.n_refused += 1
            self.n_missed += not verdict
        else:
            self.n_answered += 1
            self.n_false += verdict


def labelled(part: Part) -> list[Labelled]:
    """Return all replies of a part, in the order of its file."""
    text = Path(__file__).with_name(PARTS[part]).read_text(encoding="utf-8")
    return [_read_block(block) for block in f"\n{text}".split(f"\n{_HEAD}")[1:]]


def read_file(path: Path) -> list[Labelled]:
    """Read labelled replies: a JSON object a line, with `text` and `label`. Raises BenchmarkError or OSError."""
    remedy = f'wanted: "text" and "label" ({", ".join(LABELS)})'
    lines = decode_lines(read_utf8(path), _Line, path, remedy)
    examples = [Labelled(example.text, example.label, style=example.voice) for _, example in lines]
    if not examples:
        raise BenchmarkError(f"{path}: it has no labelled reply")
    return examples


def count_readings(examples: Iterable[Labelled]) -> dict[Label, dict[str, int]]:
    """Return how many replies of each label have each reading."""
    counts: dict[Label, Counter[str]] = {label: Counter() for label in LABELS}
    for example in examples:
        reading = verdict_on(example.reply).reading if example.reply.strip() else None
        counts[example.label][READINGS[reading]] += 1
    return {label: {reading: counter[reading] for reading in READINGS.values()} for label, counter in counts.items()}


def tallied(replies: Iterable[Labelled], by: Callable[[Labelled], str]) -> dict[str, Tally]:
    """Return the counts of each group of replies, in alphabetical order."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for reply in replies:
        tallies[by(reply)].add(reply.is_refused, _verdict(reply.reply))
    return dict(sorted(tallies.items()))


def misjudged(replies: Iterable[Labelled]) -> list[Labelled]:
    """Return the replies whose verdict is wrong; a missing verdict is not."""
    return [reply for reply in replies if _verdict(reply.reply) is (not reply.is_refused)]


class _Line(msgspec.Struct):
    text: str
    label: Label
    voice: str = ""


@lru_cache(maxsize=4096)
def _verdict(reply: str) -> bool | None:
    return verdict_on(reply).is_declined


def _read_block(block: str) -> Labelled:
    head, _, reply = block.partition("\n")
    language, label, style = head.split()
    if label not in ("refused", "answered"):
        raise ValueError(f'"{_HEAD}{head}": the second word must be refused or answered')
    return Labelled(reply.strip("\n"), "refusal" if label == "refused" else "answer", language, style)
