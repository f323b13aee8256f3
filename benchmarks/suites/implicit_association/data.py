"""The word lists of the association tests: those of Bai et al., and the embedded ones."""

import csv
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from io import StringIO
from typing import Any

import msgspec

from auditors.metrics.association import split_evenly
from benchmarks.datasets.spec import read_spec
from benchmarks.suites.protocol import DataKind, ProtocolName

SHA256: Mapping[DataKind, str] = {
    "canonical": "c509b0387a7ce224a1a3fe66a1fb937030db648877faed9ce0624605d3b98a76",
    "embedded": "49924055255ccac33dff4f8fa2b7d4b5971db96effd9d8e9f0ef4a0c14b0580a",
}
N_TESTS = 162
"""Tests per model that the published percentages imply (protocols 4.1)."""
PER_CATEGORY = 20
"""Distinct pairs of terms that `corrected` asks of each category."""

CATEGORIES: tuple[tuple[str, str], ...] = (
    *(("race", name) for name in ("racism", "guilt", "skintone", "profession", "weapon")),
    *(("race", name) for name in ("black", "hispanic", "asian", "arab_muslim")),
    *(("gender", name) for name in ("career", "science", "power", "sexuality")),
    *(("health", name) for name in ("disability", "age", "weight", "mental_illness")),
    *(("religion", name) for name in ("islam", "judaism", "buddhism")),
)
"""(domain, category) in the printed order."""


PRINTED = ("arab_muslim", "career", "weight", "judaism")
"""Categories whose embedded words are those of a prompt that the paper prints."""


class Stimulus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One category: terms of the default (a) and the stigmatised group (b), and the attributes tied to each."""

    domain: str
    category: str
    a: list[str]
    b: list[str]
    xa: list[str]
    xb: list[str]
    more: list[tuple[str, str]] = []
    """Further pairs (term of a, term of b), written for biasgate."""


def records_from(files: Mapping[str, bytes]) -> Any:
    """The categories of the predecessor's `iat_stimuli.csv` that the paper keeps, in the printed order.

    The first half of a category's attributes belongs to A. The file counts age as a domain of its own.
    """
    columns: dict[str, dict[str, list[str]]] = {}
    for row in csv.DictReader(StringIO(files["iat_stimuli.csv"].decode("utf-8-sig"))):
        name = re.sub(r"[ /]", "_", row["dataset"].strip())
        for column in "ABC":
            if cell := row[column].strip():
                columns.setdefault(name, {"A": [], "B": [], "C": []})[column].append(cell)
    return [
        {
            "domain": domain,
            "category": name,
            "a": columns[name]["A"],
            "b": columns[name]["B"],
            "xa": columns[name]["C"][: len(columns[name]["C"]) // 2],
            "xb": columns[name]["C"][len(columns[name]["C"]) // 2 :],
        }
        for domain, name in CATEGORIES
        if name in columns
    ]


SOURCE = read_spec("implicit_association", records_from)


def embedded() -> Any:
    """The twenty categories in words of our own; four have the words of the paper's printed prompts."""
    content = resources.files("benchmarks").joinpath("suites/implicit_association/embedded.json").read_bytes()
    return msgspec.json.decode(content)["data"]


def stimuli(records: Any) -> list[Stimulus]:
    """All twenty categories in print's order with our further pairs; embedded ones where the records lack one."""
    ours = {record["category"]: record for record in embedded()}
    by_category = ours | {record["category"]: record for record in records}
    return [
        msgspec.convert({**by_category[category], "more": ours[category]["more"]}, Stimulus)
        for _, category in CATEGORIES
    ]


def term_pairs(records: Any, protocol: ProtocolName) -> Iterator[tuple[str, int, Stimulus, str, str]]:
    """(item id, number within the category from 0, category, term of a, term of b) of the tests of a protocol.
    `corrected` asks twenty distinct pairs of each category: those of the records, then ours. The others ask 162 tests
    and take the terms of the records in turn, so that pairs repeat; under `paper` the first test of four categories is
    the printed prompt.
    """
    printed = {record["category"]: msgspec.convert(record, Stimulus) for record in embedded()}
    counts = split_evenly(N_TESTS, len(CATEGORIES))
    for stimulus, count in zip(stimuli(records), counts, strict=True):
        pairs = _distinct(stimulus) if protocol == "corrected" else [_in_turn(stimulus, n) for n in range(count)]
        tests = [(stimulus, *pair) for pair in pairs]
        if protocol == "paper" and stimulus.category in PRINTED:
            tests = [(list_of := printed[stimulus.category], list_of.a[0], list_of.b[0]), *tests[:-1]]
        for number, test in enumerate(tests):
            yield f"{stimulus.domain}-{stimulus.category}-{number + 1}", number, *test


def _distinct(stimulus: Stimulus) -> list[tuple[str, str]]:
    distinct: dict[tuple[str, str], tuple[str, str]] = {}
    for a, b in [*(_in_turn(stimulus, number) for number in range(PER_CATEGORY)), *stimulus.more]:
        distinct.setdefault((a.casefold(), b.casefold()), (a, b))
    return list(distinct.values())[:PER_CATEGORY]


def _in_turn(stimulus: Stimulus, number: int) -> tuple[str, str]:
    return stimulus.a[number % len(stimulus.a)], stimulus.b[number % len(stimulus.b)]
