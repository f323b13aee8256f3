"""`POST /audits/estimate` says what runs would send, and `GET /audits/{id}/gate` what holds, as the commands do."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.run import directory as run_directory
from gateway.store import catalogue, runs
from tests.support.benchmarks.scripted import pick, plan, write_run
from tests.support.commands import command
from tests.support.gateway.control_plane import STEREOSET, control_plane, publish_suites
from tests.support.gateway.finished_runs import ASKED, finished

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the process that counts lives as long as the loop


def timed(path: Path, *, seconds: float, host: str) -> Path:
    """The run directory, as if so much time had been spent on a server."""
    result = run_directory.read_result(path)
    provenance = msgspec.structs.replace(result.provenance, seconds=seconds, requests=48, base_url_host=host)
    (path / "result.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(result, provenance=provenance)))
    return path


async def test_numbers_of_a_dry_run(tmp_path: Path) -> None:
    """Items, requests and tokens are those that `audit run --dry-run` prints; nothing is queued or written."""
    options = {"limit": 10, "repeat_share": 0.5, "mitigation": "detailed"}
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answer = await plane.http.post("/audits/estimate", json=ASKED | options)
        queued = await runs.list_runs(plane.database)
    arguments = ("--limit", "10", "--repeat-share", "0.5", "--mitigation", "detailed", "--out", str(tmp_path / "runs"))
    server = ("--model", "qwen", "--base-url", "http://127.0.0.1:9", "--data", "embedded")
    code, printed, err = await command("audit", "run", "--suite", "stereoset", *server, *arguments, "--dry-run")

    assert (code, queued) == (0, []), err
    assert not (tmp_path / "runs").exists()
    [cost] = answer.json()["suites"]
    counts = [cost[name] for name in ("items", "requests", "judge_requests", "prompt_tokens", "reply_tokens")]
    assert printed.splitlines()[1].split() == ["stereoset", *(f"{count:,}" for count in counts), "unknown", "unknown"]
    assert cost["requests"] > 0
    assert [cost[name] for name in ("seconds", "expected_reply_tokens")] == [None, None]
    assert answer.json()["total"]["seconds"] is None
    assert "one with a limit of 50 gives the rate" in cost["unknown_because"]


async def test_time_by_a_finished_run(tmp_path: Path) -> None:
    """The rate is that of a finished run of the model on this upstream: 48 replies in 24 s make 3 samples 72 s."""
    ready = plan(model="qwen")
    own = timed(write_run(tmp_path / "a", pick("stereotype"), ready), seconds=24.0, host="127.0.0.1:9")
    elsewhere = timed(write_run(tmp_path / "b", pick("stereotype"), ready), seconds=1.0, host="fast.example")
    async with control_plane(tmp_path, aliases={"gpt": "qwen"}) as plane:
        await finished(plane, own)
        await finished(plane, elsewhere)
        asked = ASKED | {"samples": 3}
        found = (await plane.http.post("/audits/estimate", json=asked)).json()
        by_alias = (await plane.http.post("/audits/estimate", json=asked | {"model": "gpt"})).json()

    assert found["suites"][0]["seconds"] == found["total"]["seconds"] == pytest.approx(72.0)
    assert found["suites"][0]["unknown_because"] is None
    assert by_alias == found


async def test_what_is_not_known(tmp_path: Path) -> None:
    """A suite whose data is where the auditor runs and not here has no numbers, and neither has the sum."""
    async with control_plane(tmp_path, audits={"data_dir": str(tmp_path / "empty")}) as plane:
        built_in = STEREOSET | {"name": "decision", "items": {"embedded": 620}, "data": "built-in"}
        await catalogue.publish(plane.database, [STEREOSET | {"data": "present"}, built_in])
        found = (await plane.http.post("/audits/estimate", json={"suites": "all", "model": "qwen"})).json()
        wrong = await plane.http.post("/audits/estimate", json=ASKED | {"model": "qwem"})

    costs = {one["suite"]: one for one in found["suites"]}
    assert (costs["stereoset"]["requests"], found["total"]["requests"]) == (None, None)
    assert "biasgate datasets fetch stereoset" in costs["stereoset"]["unknown_because"]
    assert costs["decision"]["requests"] > 0
    assert (wrong.status_code, wrong.json()["detail"][:20]) == (400, 'unknown model "qwem"')


async def test_requirements(tmp_path: Path) -> None:
    """Each with its number and whether it holds; a requirement that fails, or has no number, fails the gate."""
    path = write_run(tmp_path / "a", pick("stereotype"))
    async with control_plane(tmp_path) as plane:
        gate = f"/audits/{await finished(plane, path)}/gate"
        all_hold, fails, unknown, none = [
            await plane.http.get(gate, params={"require": require})
            for require in (
                ["stereoset.ss.value >= 100", "stereoset.lms.lower > 80"],
                ["stereoset.ss[axis=gender].upper < 60"],
                ["stereoset.sss.upper < 60"],
                [],
            )
        ]

    verdicts = all_hold.json()["verdicts"]
    assert [all_hold.json()["passed"], *(verdict["passed"] for verdict in verdicts)] == [True, True, True]
    assert verdicts[0] | {"lower": None, "upper": None} == {
        "requirement": "stereoset.ss.value >= 100",
        "where": "total",
        "passed": True,
        "found": 100.0,
        "value": 100.0,
        "lower": None,
        "upper": None,
        "n": 48,
        "n_excluded": 0,
        "reason": None,
    }
    assert (fails.json()["passed"], fails.json()["verdicts"][0]["where"]) == (False, "axis=gender")
    assert (unknown.status_code, none.status_code) == (400, 400)
    assert 'unknown metric "sss" (did you mean "ss"?)' in unknown.json()["detail"]
