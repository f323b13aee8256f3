"""Labelled texts for a filter: a JSON-lines file, and its split into three parts by cluster."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError

MOST_BYTES = 256 * 1024 * 1024
FEWEST = 10
"""Clusters of each label in each part: with fewer nothing could be said of what the head does."""
Part = Literal["train", "tune", "held_out"]
SHARES: dict[Part, float] = {"train": 0.5, "tune": 0.2, "held_out": 0.3}


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    text: str
    biased: bool
    cluster: str | None = None
    """Examples with the same value were derived from each other or from a common source; unset: the text alone."""

    @property
    def key(self) -> str:
        return " ".join(self.text.split()).casefold() if self.cluster is None else self.cluster


class Examples(msgspec.Struct, frozen=True):
    examples: tuple[Example, ...]
    sha256: str
    """sha256 of the file."""


def read_examples(path: Path) -> Examples:
    """Raises BenchmarkError for a file that cannot be trained on, with the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BenchmarkError(f"{path}: larger than {MOST_BYTES} bytes: train on a part of it")
        body = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
    examples, labels = [], dict[str, bool]()
    for number, line in enumerate(body.splitlines(), 1):
        if not line.strip():
            continue
        try:
            example = msgspec.json.decode(line, type=Example)
        except (ValueError, RecursionError) as exc:
            form = '{"text": ..., "biased": true|false, "cluster": optional}'
            raise BenchmarkError(f"{path}:{number}: {exc}: each line is {form}") from exc
        if not example.text.strip():
            raise BenchmarkError(f"{path}:{number}: the text is empty")
        if labels.setdefault(example.text, example.biased) != example.biased:
            raise BenchmarkError(f"{path}:{number}: this text is there with the other label too: decide which is right")
        examples.append(example)
    return Examples(tuple(examples), hashlib.sha256(body).hexdigest())


def split(examples: Examples, seed: int) -> dict[Part, list[Example]]:
    """Each cluster in one part, by a hash. Raises BenchmarkError where a part has too few of a label."""
    parts: dict[Part, list[Example]] = {"train": [], "tune": [], "held_out": []}
    for example in examples.examples:
        drawn = int.from_bytes(hashlib.sha256(f"{seed}\0{example.key}".encode(errors="replace")).digest()[:8]) / 2**64
        train_end = SHARES["train"]
        part: Part = "train" if drawn < train_end else "tune" if drawn < train_end + SHARES["tune"] else "held_out"
        parts[part].append(example)
    for part, members in parts.items():
        n = Counter(label for label, _ in {(member.biased, member.key) for member in members})
        if min(n[True], n[False]) < FEWEST:
            raise BenchmarkError(
                f"the part {part} has {n[True]} clusters of biased and {n[False]} of other texts, and needs {FEWEST} "
                "of each: give more examples, or clusters that are smaller"
            )
    return parts
