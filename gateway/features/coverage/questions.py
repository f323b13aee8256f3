"""The questions of every suite whose data is here, few enough to embed and spread over what they are about."""

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.errors import DatasetError
from benchmarks.suites.protocol import DataKind, Dataset, Item, ProtocolName, Suite
from benchmarks.suites.registry import SUITES

MOST = 1_000
"""Most questions of a suite: a first question of each cluster comes before a second of any."""
LONGEST = 1_000
"""Characters of a text that are compared; MiniLM reads 256 word pieces, which are about as many."""
COMMON_SHARE = 0.05
"""A line that more questions of a suite have is of its form, as "Answer with the letter only."."""


class Question(msgspec.Struct, frozen=True):
    """The question of an item, without the lines that are its suite's form."""

    text: str
    cluster: str


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of a suite."""

    suite: str
    version: str
    data: DataKind
    n_items: int
    chosen: list[Question]

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode([question.text for question in self.chosen])).hexdigest()


def questions_of_all(data_dir: Path | None, checkpoint: Callable[[], None]) -> list[Questions]:
    """Returns the questions of every suite, from the published data or the embedded. `checkpoint` may end it."""
    return [questions_of(suite, data_dir, checkpoint) for suite in SUITES.values()]


def questions_of(suite: Suite, data_dir: Path | None, checkpoint: Callable[[], None], most: int = MOST) -> Questions:
    """Returns at most `most` questions with different texts; the same for the same data."""
    dataset = _dataset(suite, data_dir)
    protocol: ProtocolName = "corrected" if "corrected" in suite.protocols else suite.protocols[0]
    lines, n_items = Counter[str](), 0
    ranked: dict[str, list[tuple[bytes, Item]]] = {}
    for item in suite.items(dataset, protocol=protocol, seed=0):
        checkpoint()
        n_items += 1
        lines.update(set(_read_question(item).splitlines()))
        ranked.setdefault(item.cluster, []).append((hashlib.sha256(item.item_id.encode()).digest(), item))
    form = {line for line, n in lines.items() if n > max(1.0, COMMON_SHARE * n_items)}
    chosen: dict[str, Question] = {}
    in_order = [sorted(members, key=lambda entry: entry[0]) for members in ranked.values()]
    placed = [(place, rank, item) for members in in_order for place, (rank, item) in enumerate(members)]
    for _, _, item in sorted(placed, key=lambda entry: entry[:2]):
        checkpoint()
        text = shortened(_without(_read_question(item), form))
        if text:
            chosen.setdefault(text, Question(text, item.cluster))
        if len(chosen) == most:
            break
    return Questions(
        suite=suite.name, version=suite.version, data=dataset.kind, n_items=n_items, chosen=list(chosen.values())
    )


def shortened(text: str) -> str:
    """Returns the part of a text that is compared: its beginning, without space around it."""
    return text.strip()[:LONGEST].strip()


def _dataset(suite: Suite, data_dir: Path | None) -> Dataset:
    if "canonical" in suite.n_items:
        try:
            return suite.load("canonical", data_dir)
        except DatasetError:
            if "embedded" not in suite.n_items:
                raise
    return suite.load("embedded", data_dir)


def _read_question(item: Item) -> str:
    return item.messages[-1].content


def _without(text: str, form: set[str]) -> str:
    """The text without lines of the form; all of it where nothing else is left."""
    own = "\n".join(line for line in text.splitlines() if line not in form).strip()
    return own or text
