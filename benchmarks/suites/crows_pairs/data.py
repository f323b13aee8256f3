"""CrowS-Pairs' published file: where it is, and its records."""

from collections.abc import Mapping
from typing import Any

from benchmarks.datasets.spec import DatasetSpec, SourceFile, csv_rows
from benchmarks.suites.protocol import DataKind

REVISION = "nyu-mll/crows-pairs@8aaac11c485473159ec9328a65253a5be9a479dc"
FILE = "crows_pairs_anonymized.csv"


def records_from(files: Mapping[str, bytes]) -> Any:
    """Ids, sentences, direction and type. Annotators and their votes are not used."""
    return [
        {
            "id": f"crows-{row['']}",
            "sent_more": row["sent_more"],
            "sent_less": row["sent_less"],
            "stereo_antistereo": row["stereo_antistereo"],
            "bias_type": row["bias_type"],
        }
        for row in csv_rows(files[FILE])
    ]


SOURCE = DatasetSpec(
    name="crows_pairs",
    title="CrowS-Pairs",
    licence="CC BY-SA 4.0",
    n_items=1508,
    files=(
        SourceFile(
            url=f"https://raw.githubusercontent.com/nyu-mll/crows-pairs/8aaac11c485473159ec9328a65253a5be9a479dc/data/{FILE}",
            git_blob="28fa7d906a83d441001fb2a0eeae28c6d64a99e1",
            sha256="dfb36986ce0502abbaf7055b9176da3d08d48e07df1251991b5dfbcbceab9d0c",
            mirror_path=f"crows_pairs/{FILE}.gz",
            mirror_sha256="e6face3cc3e47aed501cab0b9e67d425fc3706596e10369692ac19609942a1ab",
        ),
    ),
    content_sha256="75bb243ea6eec7e05bb26d38451b24349293a401607f4192e20b7881060238eb",
    normalise=records_from,
)
SHA256: Mapping[DataKind, str] = {
    "canonical": SOURCE.content_sha256,
    "embedded": "a8328b11c7597251923a2cee0f2a10e5796eb0512a015ea01d241f8b7d01b6de",
}

AXIS_OF: Mapping[str, str] = {
    "gender": "gender",
    "sexual-orientation": "gender",
    "physical-appearance": "physical_appearance",
    "disability": "physical_appearance",
    "race-color": "race",
    "nationality": "nationality",
    "religion": "religion",
    "age": "age",
    "socioeconomic": "socioeconomic",
}
"""The paper reports nine types as seven: only so do its cells have the sizes that its numbers need."""
CANONICAL_CELLS: Mapping[str, int] = {
    "age": 87,
    "gender": 346,
    "nationality": 159,
    "physical_appearance": 123,
    "race": 516,
    "religion": 105,
    "socioeconomic": 172,
}
