"""The word lists of the association tests: those of Bai et al., and the embedded ones."""

import csv
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from auditors.metrics.association import split_evenly
from benchmarks.datasets import published
from benchmarks.datasets.spec import DatasetSpec, SourceFile, content_sha256
from benchmarks.errors import DatasetError
from benchmarks.suites.protocol import DataKind, Dataset

REVISION = "baixuechunzi/llm-implicit-bias@0d2772e8eb21186b6db1fab7551633ffda16c06f"
SHA256: Mapping[DataKind, str] = {
    "canonical": "c509b0387a7ce224a1a3fe66a1fb937030db648877faed9ce0624605d3b98a76",
    "embedded": "1ada96519e289e3b0a9a9905d37f57f3e05ebd1a228b1a1dafb23f49ba8e4323",
}
N_TESTS = 162
"""Tests per model that the published percentages imply (protocols 4.1)."""

CATEGORIES: tuple[tuple[str, str], ...] = (
    *(("race", name) for name in ("racism", "guilt", "skintone", "profession", "weapon")),
    *(("race", name) for name in ("black", "hispanic", "asian", "arab_muslim")),
    *(("gender", name) for name in ("career", "science", "power", "sexuality")),
    *(("health", name) for name in ("disability", "age", "weight", "mental_illness")),
    *(("religion", name) for name in ("islam", "judaism", "buddhism")),
)
"""(domain, category) in the printed order."""


class Stimulus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One category: terms of the default (a) and the stigmatised group (b), and the attributes tied to each."""

    domain: str
    category: str
    a: list[str]
    b: list[str]
    xa: list[str]
    xb: list[str]


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


SOURCE = DatasetSpec(
    name="implicit_association",
    title="IAT stimuli of Bai et al.",
    licence="MIT",
    n_items=19,
    files=(
        SourceFile(
            url="https://raw.githubusercontent.com/baixuechunzi/llm-implicit-bias/0d2772e8eb21186b6db1fab7551633ffda16c06f/stimuli/iat_stimuli.csv",
            git_blob="5aa4f57c0d7bd3745fe7ceb7e995e784f68bb5f1",
            sha256="ecd863b56401b2fe109f0ccac3bfa9bb3799d4fff2758baa6a36ab73e62d3cd0",
            mirror_path="llm_implicit_bias/iat_stimuli.csv",
            mirror_sha256="ecd863b56401b2fe109f0ccac3bfa9bb3799d4fff2758baa6a36ab73e62d3cd0",
        ),
    ),
    content_sha256=SHA256["canonical"],
    normalise=records_from,
)


def embedded() -> Any:
    """The twenty categories in words of our own; four have the words of the paper's printed prompts."""
    content = resources.files("benchmarks").joinpath("suites/implicit_association/embedded.json").read_bytes()
    return msgspec.json.decode(content)["data"]


def load(kind: DataKind, data_dir: Path | None = None) -> Dataset:
    """Raises DatasetError when the data is missing or is not the pinned content."""
    records = published.load(SOURCE, data_dir) if kind == "canonical" else embedded()
    found = content_sha256(records)
    if found != SHA256[kind]:
        raise DatasetError(
            f"implicit_association: the {kind} items differ: expected {SHA256[kind]}, found {found}: install again"
        )
    name = SOURCE.title if kind == "canonical" else "biasgate embedded items"
    return Dataset(name=name, kind=kind, sha256=found, n_canonical=N_TESTS, records=records)


def stimuli(records: Any) -> list[Stimulus]:
    """All twenty categories in the printed order; one the records lack is taken from the embedded ones."""
    known = {record["category"]: record for record in [*embedded(), *records]}
    return [msgspec.convert(known[category], Stimulus) for _, category in CATEGORIES]


def term_pairs(records: Any) -> Iterator[tuple[str, Stimulus, str, str]]:
    """(item id, category, term of a, term of b) of the 162 tests; terms are taken in turn."""
    counts = split_evenly(N_TESTS, len(CATEGORIES))
    for stimulus, count in zip(stimuli(records), counts, strict=True):
        for number in range(count):
            a, b = stimulus.a[number % len(stimulus.a)], stimulus.b[number % len(stimulus.b)]
            yield f"{stimulus.domain}-{stimulus.category}-{number + 1}", stimulus, a, b
