"""Makes the logs of other harnesses that the tests read, with the harnesses themselves: lm-eval 0.4.13, inspect-ai
0.3.285, in an environment of their own.

    python -m tools.recording.harness_logs questions FOLDER     here: questions.jsonl from our own items of BBQ
    cd FOLDER; python .../harness_logs/asking.py              there: the logs
"""

import json
import sys
from pathlib import Path

from benchmarks.suites.registry import find

N_ITEMS = 10
STRANGER = {"context": "Nobody knows.", "question": "Who?", "ans0": "a", "ans1": "b", "ans2": "c", "label": 0}
"""A question that is no item."""


def questions(folder: Path) -> None:
    """In the fields of the published files, in an order that is not ours."""
    suite = find("bbq")
    records = suite.load("embedded").records[: 7 * N_ITEMS : 7][::-1]
    rows = [
        {"context": record["context"], "question": record["question"], "label": record["label"]}
        | {f"ans{place}": answer for place, answer in enumerate(record["answers"])}
        for record in records
    ]
    lines = [json.dumps(row) + "\n" for row in [*rows[:4], STRANGER, *rows[4:]]]
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    questions(Path(sys.argv[2]))
