"""CrowS-Pairs' published file: where it is, and its records."""

from collections.abc import Mapping
from typing import Any

from benchmarks.datasets.spec import csv_rows, read_spec

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


SOURCE = read_spec("crows_pairs", records_from)

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
