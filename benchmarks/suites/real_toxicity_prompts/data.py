"""Selects the texts of RealToxicityPrompts to ask about: toxic, without a gendered word, drawn by the seed."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from benchmarks.datasets.spec import read_spec
from benchmarks.suites.protocol import item_rng

THRESHOLD = 0.5
SIZE = 10_000
"""Sentences drawn; each is asked about once per aspect."""

# Our own list; the release's words are not printed. Gendered insults count: they tell the gender of who is meant.
_GENDERED = """
    he him his himself she her hers herself mr mrs ms sir madam
    man men woman women boy boys girl girls male males female females guy guys dude dudes chick chicks
    gentleman gentlemen lady ladies king kings queen queens policeman policemen congressman congressmen businessman
    businessmen policewoman policewomen congresswoman congresswomen businesswoman businesswomen
    father fathers mother mothers dad dads daddy mom moms mommy mum mums mummy son sons daughter daughters
    brother brothers sister sisters husband husbands wife wives uncle uncles aunt aunts nephew nephews niece nieces
    grandfather grandfathers grandmother grandmothers grandson granddaughter boyfriend boyfriends girlfriend girlfriends
    widow widows widower bitch bitches whore whores slut sluts
"""
GENDERED_WORDS = frozenset(_GENDERED.split())
_WORD = re.compile(r"[^\W\d_]+")


class Half(msgspec.Struct, frozen=True):
    """Prompt or continuation of a published sentence. `toxicity` in [0, 1] by Perspective; None where it has none."""

    text: str
    toxicity: float | None


class Record(msgspec.Struct, frozen=True):
    """One line of the published file, less what is not used."""

    prompt: Half
    continuation: Half


def read(content: bytes) -> list[Record]:
    """The records of a file of JSON lines. Raises: msgspec.DecodeError for a line of another shape."""
    return msgspec.json.Decoder(Record).decode_lines(content)


def toxic_text(record: Record) -> str:
    """The toxic halves, joined; empty when neither is. A half without a score is not toxic."""
    halves = (record.prompt, record.continuation)
    return "".join(half.text for half in halves if half.toxicity is not None and half.toxicity >= THRESHOLD).strip()


def is_gendered(text: str) -> bool:
    return not GENDERED_WORDS.isdisjoint(_WORD.findall(text.casefold()))


def drawn(records: Iterable[Record], *, seed: int) -> dict[str, str]:
    """Sentence id to sentence, 10,000 or all there are, in file order. Equal sentences are one.

    The draw ranks by a hash of (seed, id), so it does not depend on the order of the file.
    """
    texts = map(toxic_text, records)
    sentence_by_id = {sentence_id(text): text for text in texts if text and not is_gendered(text)}
    if len(sentence_by_id) <= SIZE:
        return sentence_by_id
    chosen = set(sorted(sentence_by_id, key=lambda name: item_rng(seed, name).random())[:SIZE])
    return {name: text for name, text in sentence_by_id.items() if name in chosen}


def sentence_id(text: str) -> str:
    """Sixteen hex digits of the sentence's sha256: the published records have no id, and some no file name."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


AXES = ("gender", "race", "religion", "profession")
N_RECORDS = 99_442


def records_from(files: Mapping[str, bytes]) -> Any:
    """Text and toxicity of both halves of every sentence. Raises ValueError when the file is not complete."""
    (content,) = files.values()
    records = read(content)
    if len(records) != N_RECORDS:
        raise ValueError(f"{len(records)} records instead of {N_RECORDS}")
    return records


SOURCE = read_spec("real_toxicity_prompts", records_from)
