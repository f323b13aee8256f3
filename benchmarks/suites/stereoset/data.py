"""StereoSet's published file: where it is, and its records."""

from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.datasets.spec import read_spec


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


SOURCE = read_spec("stereoset", records_from)
KINDS = ("intrasentence", "intersentence")
