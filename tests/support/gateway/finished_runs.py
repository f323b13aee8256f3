"""Finished runs of a store with the replies and the result of a run directory."""

import json
from pathlib import Path
from typing import Any

from gateway.store import run_responses, runs
from tests.support.gateway.control_plane import ControlPlane, publish_suites

ASKED = {"suites": ["stereoset"], "model": "qwen", "data": "embedded"}


async def finished(plane: ControlPlane, run_directory: Path, **asked: Any) -> str:
    """Asks for a run as a client does, and ends it as an auditor does; its id."""
    await publish_suites(plane, name=(ASKED | asked)["suites"][0])
    audit_id = str((await plane.http.post("/audits", json=ASKED | asked)).json()["id"])
    run = await runs.claim(plane.database, audit_id)
    assert run is not None
    replies = [(line, json.loads(line)) for line in (run_directory / "responses.jsonl").read_text().splitlines()]
    rows = [(one["item_id"], one.get("sample", 0), one.get("status", "error"), line) for line, one in replies]
    await run_responses.append(plane.database, run, rows)
    result, report = (run_directory / "result.json").read_text(), (run_directory / "report.html").read_text()
    await runs.finish(plane.database, audit_id, result=result, report=report)
    return audit_id
