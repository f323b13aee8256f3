"""Numbers of a bundle are formed anew from its items and replies, with and without the data set."""

import json
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.run.runner import run_plan
from gateway.features.bundles import building
from gateway.features.bundles.cli.bundle import contents
from gateway.features.bundles.rescoring import rescore
from tests.support.benchmarks.replayed import SUITES, Saying, answered, recorded_plan


async def bundled(path: Path, suite: str, *, limit: int | None = 60) -> Path:
    """A bundle of a run whose replies were recorded of the simulated model."""
    plan = recorded_plan(suite, samples=1, limit=limit)
    log = answered(path / "run", plan)
    result = await run_plan(plan, completer=Saying("a"), log=log)
    log.close()
    directory.finish(path / "run", result, "a page")
    building.write_to(path / "b", contents(path / "run"))
    return path / "b"


@pytest.mark.parametrize("suite", SUITES)
async def test_every_suite_comes_out_the_same(tmp_path: Path, suite: str) -> None:
    """With the data, and from the bundle's own items where they must do, every number is that of result.json."""
    path = await bundled(tmp_path, suite, limit=24)
    n_numbers = len(directory.read_result(tmp_path / "run").estimates)
    joint = [one for one in directory.read_result(tmp_path / "run").estimates if one.metric == "bias_score"]
    n_alone = n_numbers - (len(joint) if suite == "decision" else 0)

    found = rescore(path)
    assert (found.n_same, found.differences) == (n_alone, [])
    own = rescore(without_data(path, tmp_path / "run"))
    assert (own.n_same, own.differences) == (n_alone, [])
    assert "is not here to compare them with" in own.notes[0]


def without_data(path: Path, run: Path) -> Path:
    """The bundle of a run that evaluates other runs, which are not here: its items cannot be made again."""
    about = json.loads((run / "run.json").read_text())
    about["options"]["evaluate"] = ["elsewhere"]
    (run / "run.json").write_text(json.dumps(about))
    building.write_to(path, contents(run))
    return path


async def test_a_number_that_was_changed_is_found(tmp_path: Path) -> None:
    """Whoever packs other numbers than the replies give is found out, whatever the statement says."""
    await bundled(tmp_path, "stereoset")
    path = tmp_path / "run" / "result.json"
    result = json.loads(path.read_text())
    changed = next(one for one in result["estimates"] if one["value"] is not None)
    changed["value"] += 1
    result["counts"]["ok"] -= 1
    path.write_text(json.dumps(result))
    building.write_to(tmp_path / "b", contents(tmp_path / "run"))

    counts, number = rescore(tmp_path / "b").differences
    assert counts.startswith("replies: ")
    assert number.startswith(changed["metric"])
    assert repr(changed["value"]) in number


async def test_what_cannot_be_scored_is_said(tmp_path: Path) -> None:
    """Files that are not as stated, another version of the suite and other prompts are one line each."""
    path = await bundled(tmp_path, "stereoset")
    content = path.read_bytes()
    (tmp_path / "changed").write_bytes(content.replace(b'"text":"', b'"text":"x', 1)[: len(content)])
    with pytest.raises(BenchmarkError, match=str(tmp_path / "changed")):
        rescore(tmp_path / "changed")

    run = tmp_path / "run"
    for name, before, after, words in (
        ("items.jsonl", '"content":"', '"content":"Please. ', "the prompt of item"),
        ("run.json", '"prompt_sha256": "', '"prompt_sha256": "0', "other prompts"),
        ("run.json", '"samples": 1', '"samples": 1000000000', "1000000000 samples, and there are 48 replies"),
        ("responses.jsonl", '"parsed":', '"judge":' + 100_000 * '{"a":', "line 1: maximum recursion depth"),
        ("result.json", '"suite_version": "', '"suite_version": "0.', "score it with that version"),
    ):
        text = (run / name).read_text()
        assert before in text
        (run / name).write_text(text.replace(before, after, 1))
        building.write_to(tmp_path / "c", contents(run))
        with pytest.raises(BenchmarkError, match=words):
            rescore(tmp_path / "c")
        (run / name).write_text(text)
