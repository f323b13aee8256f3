"""`biasgate judge panel`: real questions to simulated judges, and what goes wrong."""

import asyncio
import contextlib
import json
import re
from pathlib import Path

import pytest

from benchmarks.lab.judge_panel.asking import Member, ask, replies
from benchmarks.run import directory
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.simulator.loading import parse
from gateway.__main__ import main
from tests.support.benchmarks.replayed import Saying, answered
from tests.support.commands import refused
from tests.support.simulated import running_simulator

STRICT = parse({"name": "strict", "judge": {"false_positive_rate": 0.5}})


def run(directory: Path, suite: str, model: str = "simulated", limit: int | None = 60) -> Path:
    plan = prepare(RunOptions(suite=suite, model=model, data="embedded", seed=1, limit=limit))
    with contextlib.closing(answered(directory / f"{suite}-{model}", plan)):
        return directory / f"{suite}-{model}"


async def test_two_judges_of_two_writers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The judge that invents bias agrees less and calls more replies biased, of both writers alike; all is kept."""
    paths = [str(run(tmp_path, "ltf_test", model)) for model in ("simulated", "other")]
    async with running_simulator() as plain, running_simulator(STRICT) as strict:
        judges = ["--judge", f"simulated={plain}", "--judge", f"simulated-judge={strict}"]
        arguments = ["judge", "panel", *paths, *judges, "--out", str(tmp_path / "panel.json")]
        assert await asyncio.to_thread(main, arguments) == 0
    printed = capsys.readouterr().out
    assert "2 judges on 120 replies of 2 runs" in printed
    agreement = float(re.search(r"^simulated and simulated-judge +(\d+\.\d) %", printed, re.MULTILINE)[1])  # type: ignore[index]
    assert 30 < agreement < 90
    shares = re.findall(r"^(simulated|other) +(simulated|simulated-judge) +(\d+\.\d) %", printed, re.MULTILINE)
    of = {(writer, judge): float(share) for writer, judge, share in shares}
    for writer in ("simulated", "other"):
        assert of[writer, "simulated-judge"] > of[writer, "simulated"] + 5
    assert re.search(r"^simulated +0\.0 %", printed, re.MULTILINE)  # the same replies: it spares neither
    kept = json.loads((tmp_path / "panel.json").read_text())
    assert len(kept["verdicts"]) == 2
    assert {len(one["first"]) for one in kept["verdicts"]} == {120}


async def test_the_order_of_a_decision_is_turned(tmp_path: Path) -> None:
    """A judge that reads the text says the same in the other order; one that goes by place turns with it."""
    path = run(tmp_path, "decision")
    found, options = replies([path], n=20, seed=0), directory.read_manifest(path).options
    by_place = await ask(
        found,
        options,
        Member(model="m", url="http://x"),
        Saying('{"a": "alpha", "b": "beta", "refusal": false}'),
        in_flight=4,
    )
    assert by_place.swapped is not None
    first, again = ([one.value for one in side if one is not None] for side in (by_place.first, by_place.swapped))
    assert len(first) == len(again) == len(found)
    assert [-float(value or 0.0) for value in first] == again
    assert set(first) == {-1.0, 1.0}


def test_a_mistake_costs_one_line(tmp_path: Path) -> None:
    """Too few judges, the same twice, no server named, runs that do not go together, a server that does not answer."""
    essays, decisions = str(run(tmp_path, "ltf_test", limit=10)), str(run(tmp_path, "decision", limit=10))
    stereoset = str(run(tmp_path, "stereoset", limit=10))
    two = ["--judge", "a=http://127.0.0.1:9", "--judge", "b=http://127.0.0.1:9"]
    for arguments, told in (
        ([essays, *two[:2]], "a panel has two judges or more"),
        ([essays, *two, *two[:2]], "each with its own name"),
        ([essays, "--judge", "a", "--judge", "b=http://x"], '--judge "a": give a model and its server'),
        ([essays, decisions, *two], "need the same suite, protocol and seed"),
        ([stereoset, *two], "read by rules"),
        ([essays, *two, "--n", "0"], "--concurrency and --n must be 1 or more"),
        ([essays, *two], 'the judge "a" at http://127.0.0.1:9 does not answer'),
        ([str(tmp_path / "absent"), *two], "no run directory"),
    ):
        assert told in refused("judge", "panel", *arguments)
