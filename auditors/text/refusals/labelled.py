"""Our own labelled replies, and how often the auditor's verdict on them is wrong.

Two parts, in the text files next to this module: "development", on which the rules were tried while they were written,
and "held-out", written by the same hand after the rules and looked at once; nothing was tuned on it. A reply counts as
refused when what was asked for is withheld, wholly or in part; a caveat before an answer is not a refusal.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from auditors.metrics.intervals import Interval, wilson_interval
from auditors.text.refusals.verdict import verdict_on

Part = Literal["development", "held-out"]
PARTS: dict[Part, str] = {"development": "development.txt", "held-out": "held_out.txt"}
_HEAD = "=== "


class Labelled(NamedTuple):
    """One reply with what a person says of it."""

    reply: str
    is_refused: bool
    language: str
    """ISO 639-1."""
    style: str
    """A word for the manner: "apology", "table", "story"..."""


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

    @property
    def missed(self) -> Interval | None:
        """Wilson's 95 % interval of the share of refusals that are missed; None without a refusal."""
        return wilson_interval(self.n_missed, self.n_refused)

    @property
    def false(self) -> Interval | None:
        """Return Wilson's 95 % interval of the share of answers that are taken for refusals; None without an answer."""
        return wilson_interval(self.n_false, self.n_answered)

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
    """All replies of a part, in the order of its file."""
    text = Path(__file__).with_name(PARTS[part]).read_text(encoding="utf-8")
    return [_read(block) for block in f"\n{text}".split(f"\n{_HEAD}")[1:]]


def tallied(replies: Iterable[Labelled], by: Callable[[Labelled], str]) -> dict[str, Tally]:
    """The counts of each group of replies, in alphabetical order."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for reply in replies:
        tallies[by(reply)].add(reply.is_refused, _verdict(reply.reply))
    return dict(sorted(tallies.items()))


def misjudged(replies: Iterable[Labelled]) -> list[Labelled]:
    """Return the replies whose verdict is wrong; a missing verdict is not."""
    return [reply for reply in replies if _verdict(reply.reply) is (not reply.is_refused)]


@lru_cache(maxsize=4096)
def _verdict(reply: str) -> bool | None:
    """One reply counts in several tables."""
    return verdict_on(reply).is_declined


def _read(block: str) -> Labelled:
    head, _, reply = block.partition("\n")
    language, label, style = head.split()
    if label not in ("refused", "answered"):
        raise ValueError(f'"{_HEAD}{head}": the second word must be refused or answered')
    return Labelled(reply.strip("\n"), label == "refused", language, style)
