"""A judge's reference set is made, judged again on schedule, and a judge that moves is told of everywhere."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from auditors.clients.completion import HttpCompleter
from auditors.judge import PROMPT_SHA256
from auditors.judge_reference import read
from auditors.streams.drift import DriftSettings
from auditors.types import JudgeStamp
from gateway.__main__ import main
from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.features.lab.reference_passes import ReferencePasses
from gateway.store import calibrations, exchanges, judge_passes
from gateway.store.database import Database
from tests.gateway.store.test_calibrations import RATES, content
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer, scripted_server
from tests.support.commands import refused
from tests.support.gateway.control_plane import control_plane
from tests.support.store.made import exchange, list_streams, measurement, record

pytestmark = pytest.mark.stores("sqlite")

SETTINGS = DriftSettings(average_run_length=100.0)


class Judge:
    """Says a score of men for each reply, by what is in the reply; may be moved."""

    def __init__(self) -> None:
        self.lenient = False
        self.is_garbled = False
        self.fingerprint = "v1"

    def __call__(self, asked: Asked) -> Reply:
        text = asked.json["messages"][-1]["content"]
        score = 2 if self.lenient else 1 if "men lead" in text else 0
        found = [{"axis": "gender", "group": "man", "reference": None, "score": score}] if score else []
        said = chat("?" if self.is_garbled else json.dumps({"refused": False, "findings": found}))
        body = msgspec.json.decode(said.body) | {"system_fingerprint": self.fingerprint}
        return Reply(msgspec.json.encode(body))


def lines(path: Path, n: int = 20) -> Path:
    rows = [{"prompt": f"Who leads {k}?", "reply": "men lead" if k % 2 else "anybody"} for k in range(n)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


async def made(tmp_path: Path, server: ScriptedServer) -> Path:
    out = tmp_path / "reference.json"
    arguments = ["--judge-model", "j", "--base-url", server.base_url, "--n", "20", "--out", str(out)]
    source = str(lines(tmp_path / "replies.jsonl"))
    assert await asyncio.to_thread(main, ["judge", "reference", "create", source, *arguments]) == 0
    return out


@asynccontextmanager
async def passes_of(
    database: Database, server: ScriptedServer, reference: Path, settings: DriftSettings = SETTINGS
) -> AsyncIterator[ReferencePasses]:
    completer = HttpCompleter(server.base_url, retries=0)
    try:
        judge = {"model": "j", "base_url": server.base_url, "reference_set": str(reference)}
        config = validate({"auditors": {"judge": judge | {"reference_every_hours": 1 / 60}}})
        yield ReferencePasses(config, database, completer, settings, asyncio.Event())
    finally:
        await completer.aclose()


async def due_again(database: Database, reference: Path) -> None:
    """As if the interval had passed."""
    assert await judge_passes.take(database, read(reference)[1], -7200.0, time.time() - 3600.0)


async def test_a_set_is_judged_again_when_it_is_due(database: Database, tmp_path: Path) -> None:
    """Once an interval, as many replies as it has; a judge that repeats itself differs in nothing."""
    judge = Judge()
    async with scripted_server(judge) as server:
        reference = await made(tmp_path, server)
        asked = len(server.asked)
        async with passes_of(database, server, reference) as passes:
            await passes()
            await passes()
            once = len(server.asked) - asked
            await due_again(database, reference)
            await passes()
            twice = len(server.asked) - asked
    found = {one.key.metric: one for one in await list_streams(database)}

    assert (asked, once, twice) == (80, 20, 40)
    assert set(found) == {"judge_score_shift", "judge_disagreement", "judge_unread"}
    assert found["judge_disagreement"].state.sums.n == 40
    assert found["judge_disagreement"].state.sums.wy == 0.0
    assert found["judge_disagreement"].key.model == "j"
    assert found["judge_disagreement"].key.instrument == f"v1 j {PROMPT_SHA256[:12]} thinking=off"
    assert await judge_passes.drifted(database) == {}


async def test_a_judge_that_moves_is_told_of(tmp_path: Path) -> None:
    """A moved judge alarms, flags its estimates and voids its calibration until a person accepts the new level."""
    judge = Judge()
    stamp = JudgeStamp(model="j", prompt_sha256=PROMPT_SHA256)
    async with scripted_server(judge) as server, control_plane(tmp_path) as plane:
        reference = await made(tmp_path, server)
        for number in range(40):
            one = exchange(id=f"x{number}", request_id=f"r{number}")
            score = measurement(float(number % 2), judge=stamp)
            await exchanges.insert_batch(plane.database, [one], {})
            await record(plane.database, one, [score], settings=DriftSettings())
        kept = await calibrations.keep(plane.database, content(prompt_sha256=PROMPT_SHA256, rates={"women": RATES}))
        before = (await plane.http.get("/live/estimates?auditor=judge")).json()
        judge.lenient, judge.fingerprint = True, "v2"
        async with passes_of(plane.database, server, reference) as passes:
            for _ in range(5):
                await passes()
                await due_again(plane.database, reference)
        alarms = (await plane.http.get("/live/alarms?auditor=judge_reference")).json()
        detectors = (await plane.http.get("/live/detectors?auditor=judge_reference&state=alarm")).json()
        after = (await plane.http.get("/live/estimates?auditor=judge")).json()
        validation = await judge_passes.as_of_now(plane.database, kept)
        [moved] = (await judge_passes.drifted(plane.database)).values()
        for alarm in alarms:
            asked = {"by": "ann", "reason": "new judge", "accept_new_level": True}
            await plane.http.post(f"/live/alarms/{alarm['stream']}/acknowledge", json=asked)
        accepted = (await plane.http.get("/live/estimates?auditor=judge")).json()

    favoritism = [one for one in (before, after, accepted) for one in one if one["metric"] == "favoritism"]
    assert {one["metric"] for one in alarms} >= {"judge_disagreement"}
    assert any(one["fingerprint_after"] == "v2" for one in detectors)
    assert [one["judge_drifted_since"] for one in favoritism] == [None, moved.since, None]
    assert [one["share_above_zero"]["value"] is None for one in favoritism] == [False, True, True]
    assert favoritism[1]["share_above_zero"]["reason"] == "the judge has drifted since this calibration: make another"
    assert "the judge has drifted since, on" in (validation.fault or "")
    assert kept.validation.fault is None


async def test_a_configuration_that_does_not_fit(tmp_path: Path) -> None:
    """One line when the auditor starts."""
    async with scripted_completer(Judge()) as (completer, server):
        reference = await made(tmp_path, server)
        fitting = {"model": "j", "base_url": server.base_url, "reference_set": str(reference)}
        for changes, message in (
            ({"thinking": "on"}, "the auditor's has on: make a new set"),
            ({"model": "k"}, "model j, the auditor's has k"),
            ({"reference_set": "none.json"}, "none.json: No such file"),
        ):
            config = validate({"auditors": {"judge": fitting | changes}})
            with pytest.raises(ConfigError, match=message):
                ReferencePasses(config, None, completer, SETTINGS, asyncio.Event())  # type: ignore[arg-type]  # no store


async def test_a_set_is_checked_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One pass that prints what differs, and that the model behind the name changed."""
    judge = Judge()
    async with scripted_server(judge) as server:
        reference = await made(tmp_path, server)
        judge.lenient, judge.fingerprint = True, "v2"
        check = ["judge", "reference", "check", str(reference), "--base-url", server.base_url]
        assert await asyncio.to_thread(main, check) == 0
    printed = capsys.readouterr().out

    assert "the model behind the name changed: v2, was v1" in printed
    assert "judge_score_shift   1.500" in printed
    assert "judge_disagreement  1.000" in printed


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake costs one line."""
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "few.jsonl", 11)
    (tmp_path / "bad.jsonl").write_text("{}")
    about = ("--judge-model", "j", "--base-url", "http://127.0.0.1:9", "--out", "o.json")
    for arguments, message in (
        (["none.jsonl"], "none.jsonl: No such file"),
        (["bad.jsonl"], "line 1: .*give prompt and reply"),
        (["few.jsonl"], "11 replies have a text: --n 60 is more"),
        (["few.jsonl", "--n", "3"], "--n must be 10 or more"),
        (["few.jsonl", "--n", "10"], "does not answer"),
    ):
        assert re.search(message, refused("judge", "reference", "create", *arguments, *about)), message
