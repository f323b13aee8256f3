"""The training set beside the published BBQ: all 58,492 items, as the data step reads them."""

import json
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks.datasets import fetching
from benchmarks.errors import BenchmarkError
from benchmarks.lab.regard_ft import data
from benchmarks.suites.bbq.suite import BBQ, SOURCE
from gateway.__main__ import main
from tests.support.published import DATA, needs_data

LONGEST_CHECK_SECONDS = 20.0
"""Of processor time; it takes 1 s."""


@needs_data
def test_no_question_is_an_item_of_the_published_bbq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data step finds BBQ where it was fetched, and its card says that it looked; a question or context of BBQ
    among the pairs is refused by name, whatever its case and marks; the check costs no more than reading the items.
    """
    monkeypatch.setenv("BIASGATE_HOME", str(tmp_path / "home"))
    fetching.fetch(SOURCE, mirror=str(DATA))
    assert main(["mitigate", "regard-ft", "data", "--out", str(tmp_path / "set")]) == 0
    assert json.loads((tmp_path / "set/card.json").read_text())["bbq_checked"] is True
    _, pairs = data.read(tmp_path / "set")
    records = BBQ().load("canonical").records
    assert len(records) == 58_492
    items = sorted({text for one in records for text in (one["question"], one["context"])})
    began = time.process_time()
    data.demand_no_bbq(pairs, items)
    assert time.process_time() - began < LONGEST_CHECK_SECONDS
    for leaked in (records[0]["question"], records[-1]["context"]):
        spoiled = [*pairs[:-1], msgspec.structs.replace(pairs[-1], question=leaked.upper().rstrip("?."))]
        with pytest.raises(BenchmarkError, match=f"{pairs[-1].id}: its question is an item of BBQ"):
            data.demand_no_bbq(spoiled, items)
