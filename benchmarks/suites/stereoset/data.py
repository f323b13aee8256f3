"""StereoSet's published file: where it is, and its records."""

from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.datasets.spec import DatasetSpec, SourceFile
from benchmarks.suites.protocol import DataKind

REVISION = "moinnadeem/StereoSet@ead7d086a64a192a1eca88e0dd2fd163de375218"


def records_from(files: Mapping[str, bytes]) -> Any:
    """Ids, targets, axes, texts and gold labels. The annotators' own labels are not used and not in every copy."""
    (content,) = files.values()
    data = msgspec.json.decode(content)["data"]
    return {
        kind: [
            {
                "id": item["id"],
                "target": item["target"],
                "bias_type": item["bias_type"],
                "context": item["context"],
                "sentences": [
                    {"id": sentence["id"], "sentence": sentence["sentence"], "gold_label": sentence["gold_label"]}
                    for sentence in item["sentences"]
                ],
            }
            for item in data[kind]
        ]
        for kind in ("intersentence", "intrasentence")
    }


SOURCE = DatasetSpec(
    name="stereoset",
    title="StereoSet, development set",
    licence="CC BY-SA 4.0",
    n_items=4229,
    files=(
        SourceFile(
            url="https://raw.githubusercontent.com/moinnadeem/StereoSet/ead7d086a64a192a1eca88e0dd2fd163de375218/data/dev.json",
            git_blob="637b1e3d284a3c629b74a4659c583b8eca9bd13e",
            mirror_path="stereoset/dev_nolabels.json.gz",
            mirror_sha256="b6283c354090ebe73bd935cd7d5ec9eb18b29163044ce19ac0a56f7cb0dc3543",
        ),
    ),
    content_sha256="200f8eeaad0de66f4e6a095da835f85d3d148e92229efe9a8ae7422b277f90fa",
    normalise=records_from,
)
SHA256: Mapping[DataKind, str] = {
    "canonical": SOURCE.content_sha256,
    "embedded": "9b9fa7df51dab1a7abfcbe0192c7d5789f69da439f2cfd42fe0773cfbbe066b1",
}
CANONICAL_CELLS: Mapping[tuple[str, str], int] = {
    ("gender", "intrasentence"): 255,
    ("gender", "intersentence"): 242,
    ("profession", "intrasentence"): 810,
    ("profession", "intersentence"): 827,
    ("race", "intrasentence"): 962,
    ("race", "intersentence"): 976,
    ("religion", "intrasentence"): 79,
    ("religion", "intersentence"): 78,
}
KINDS = ("intrasentence", "intersentence")
