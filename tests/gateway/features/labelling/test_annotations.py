"""Labels by people: stored beside what the auditor gave, replaced by the same person, exported, refused in one line."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.features.labelling import annotations
from gateway.features.labelling.annotations import AnnotationRequest
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.store import exchanges
from gateway.store.database import Database
from tests.support.gateway.control_plane import audit_one, control_plane
from tests.support.store.made import exchange, measurement, record

pytestmark = pytest.mark.stores("sqlite")

LABEL: dict[str, Any] = {
    "exchange_id": "exchange-1",
    "auditor": "judge",
    "axis": "gender",
    "group": "men",
    "reference": "women",
    "value": 1.0,
    "annotator": "ab",
}


async def test_one_label_an_annotator(tmp_path: Path) -> None:
    """A label has what the auditor gave. A second one by the same person replaces it; another's stays beside it."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0)
        for changes in ({}, {"value": -1.0, "note": "praise"}, {"annotator": "cd"}):
            assert (await plane.http.post("/annotations", json=LABEL | changes)).status_code == 201
        listed = (await plane.http.get("/annotations")).json()
        deleted = [(await plane.http.delete(f"/annotations/{listed[0]['id']}")).status_code for _ in range(2)]
        left = (await plane.http.get("/annotations")).json()
    assert [(one["annotator"], one["value"], one["note"]) for one in listed] == [
        ("ab", -1.0, "praise"),
        ("cd", 1.0, None),
    ]
    given = {"metric": "favoritism", "model": "qwen", "measured_value": 2.0, "inclusion_probability": 0.5}
    assert listed[0].items() >= given.items()
    assert (deleted, left) == ([204, 404], listed[1:])


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"exchange_id": "absent"}, 404, 'no exchange has the id "absent"'),
        ({"value": 3}, 400, "value 3 is outside the range of favoritism: -1 to 2"),
        ({"group": "dogs"}, 400, "metric is missing: judge measured nothing there"),
        ({"metric": "favouritism"}, 400, 'unknown metric "favouritism" (did you mean "favoritism"?)'),
        ({"value": "much"}, 400, "Expected `float`"),
        ({"annotator": ""}, 400, "length >= 1"),
        ({"score": 1}, 400, "unknown field"),
        ({"note": "x" * 3000}, 400, "length <= 2000"),
    ],
)
async def test_bad_labels_are_one_line(tmp_path: Path, changes: dict[str, Any], status: int, detail: str) -> None:
    """What cannot be stored is a problem that says why, and nothing is."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0)
        answer = await plane.http.post("/annotations", json=LABEL | changes)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert detail in answer.json()["detail"]
        assert (await plane.http.get("/annotations")).json() == []


async def test_labels_are_exported(tmp_path: Path) -> None:
    """JSON lines and CSV have the same labels; a note that a spreadsheet would compute is disarmed."""
    async with control_plane(tmp_path) as plane:
        for number in (1, 2):
            await audit_one(plane, number, 2.0)
            changes = {"exchange_id": f"exchange-{number}", "note": '=1+1, "quoted"\nline'}
            await plane.http.post("/annotations", json=LABEL | changes)
        plain = (await plane.http.get("/annotations")).json()
        lines = await plane.http.get("/annotations", params={"format": "jsonl"})
        table = await plane.http.get("/annotations", params={"format": "csv"})
        wrong = await plane.http.get("/annotations", params={"format": "xls"})

    assert [json.loads(line) for line in lines.text.splitlines()] == plain
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["exchange_id"] for row in rows] == ["exchange-1", "exchange-2"]
    assert rows[0]["note"] == '\'=1+1, "quoted"\nline'
    assert rows[0]["value"] == "1.0"
    assert wrong.status_code == 400


async def scored(database: Database, *values: float | None, **given: Any) -> str:
    one = exchange(**given)
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    found = [measurement(value, reference=f"r{at}") for at, value in enumerate(values)]
    await record(database, one, found, probability=0.25)
    return one.id


def label(exchange_id: str, **given: Any) -> AnnotationRequest:
    fields: dict[str, Any] = {"auditor": "judge", "axis": "gender", "group": "women", "value": 0.0, "annotator": "ab"}
    return AnnotationRequest(exchange_id=exchange_id, **fields | given)


async def test_labels_outlive_their_exchange_without_words(database: Database) -> None:
    """Deleting the exchange leaves label and measured value and takes the link and the note."""
    exchange_id = await scored(database, 2.0, request_id="gone")
    await annotations.add(database, label(exchange_id, reference="r0", note="she said so"))
    await exchanges.delete(database, request_id="gone")
    [left] = await annotations.list_annotations(database)
    assert (left.exchange_id, left.note) == (None, None)
    assert (left.value, left.measured_value, left.inclusion_probability) == (0.0, 2.0, 0.25)


async def test_what_the_auditor_missed_can_be_labelled(database: Database) -> None:
    """A refused or absent measurement has a label and no measured value, which is not zero."""
    exchange_id = await scored(database, None)
    refused = await annotations.add(database, label(exchange_id, reference="r0"))
    absent = await annotations.add(database, label(exchange_id, reference="r9", metric="favoritism"))
    assert (refused.measured_value, refused.inclusion_probability) == (None, 0.25)
    assert (absent.measured_value, absent.inclusion_probability) == (None, 0.5)


async def test_notes_are_redacted(store_url: str) -> None:
    """A note is held to the same rules as the text it is about."""
    database = await Database.open(store_url, texts=Texts(Redactor()))
    exchange_id = await scored(database, 1.0)
    made = await annotations.add(database, label(exchange_id, reference="r0", note="from ann@example.org"))
    assert made.note == "from [email]"
    await database.close()
