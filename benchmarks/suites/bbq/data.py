"""BBQ's published files as records, with their known errors flagged."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.datasets.spec import csv_rows

AXES: Mapping[str, str] = {
    "Age": "age",
    "Disability_status": "ability",
    "Gender_identity": "gender",
    "Nationality": "nationality",
    "Physical_appearance": "physical_appearance",
    "Race_ethnicity": "race",
    "Race_x_SES": "race_x_ses",
    "Race_x_gender": "race_x_gender",
    "Religion": "religion",
    "SES": "socioeconomic",
    "Sexual_orientation": "sexual_orientation",
}
SWAPPED, EMPTY_GROUP = "swapped", "empty_group"
FLAGS = (SWAPPED, EMPTY_GROUP)


def records_from(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Return one record per item, in category order, from `<Category>.jsonl` files and `target_loc.csv`, a table with
    the columns category, example_id and target_loc. `target`: the option a stereotyping model picks, None where
    upstream has none; `flags`: known errors. Raises KeyError for a missing file, column or row; ValueError for an
    impossible label.
    """
    targets = _targets(files["target_loc.csv"])
    return [
        _record(msgspec.json.decode(line), targets)
        for category in AXES
        for line in files[f"{category}.jsonl"].splitlines()
        if line.strip()
    ]


def _targets(table: bytes) -> dict[tuple[str, int], int | None]:
    return {
        (row["category"], int(row["example_id"])): int(float(row["target_loc"])) if row["target_loc"] else None
        for row in csv_rows(table)
    }


def _record(raw: Mapping[str, Any], targets: Mapping[tuple[str, int], int | None]) -> dict[str, Any]:
    info = [raw["answer_info"][f"ans{place}"] for place in range(3)]
    target, label = targets[raw["category"], raw["example_id"]], raw["label"]
    if label not in range(3) or target not in (None, 0, 1, 2):
        raise ValueError(f"{raw['category']} {raw['example_id']}: label {label} or target {target} is not an option")
    return {
        "id": f"{raw['category']}-{raw['example_id']}",
        "category": raw["category"],
        "question_index": int(raw["question_index"]),
        "polarity": raw["question_polarity"],
        "condition": raw["context_condition"],
        "context": raw["context"],
        "question": raw["question"],
        "answers": [raw[f"ans{place}"] for place in range(3)],
        "groups": [re.sub(r"\W+", "_", name.strip()).casefold() for _, name in info],
        "label": label,
        "target": target,
        "flags": [SWAPPED] * _is_swapped(raw) + [EMPTY_GROUP] * any(not name for _, name in info),
    }


_LOW_INCOME = ("low income", "poor", "working-class")


def _is_swapped(raw: Mapping[str, Any]) -> bool:
    """Return whether `answer_info` gives two people each other's group; it does in three templates."""
    template, groups = (raw["category"], raw["question_index"]), dict(raw["answer_info"].values())
    if template == ("SES", "8"):
        matches = re.findall(r"(\w+) is from an? ([\w -]+?) family", raw["context"])
        return any(groups[name] != ("lowSES" if word in _LOW_INCOME else "highSES") for name, word in matches)
    if template in (("Gender_identity", "35"), ("Gender_identity", "36")):
        matches = re.findall(r"(\w+), who is trans", raw["context"])
        return any(not groups[name].startswith("trans") for name in matches)
    return False
