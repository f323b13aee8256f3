"""`biasgate mitigate regard-ft evaluate` and `plot` as a user runs them, against the simulated model and judge."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.commands import command, refused, run_here, start
from tests.support.processes import free_port
from tests.support.simulated import running_simulator, simulator_in_thread
from tests.support.training.checkpoints import written
from tests.support.waiting import eventually

SERVED = 'models = ["models/tiny", "step-10", "step-20", "judge"]\n'
PROFILE = SERVED + "[favoritism]\ndefault = [0.1, 0.3, 0.3, 0.3]\n"
ASKED = ("--judge-model", "judge", "--axes", "age", "--data", "embedded", "--limit", "60")


def evaluate(url: str, *more: str) -> tuple[str, ...]:
    return ("mitigate", "regard-ft", "evaluate", "out", "--base-url", url, *ASKED, *more)


async def refused_process(*arguments: str) -> str:
    """As `refused`, of a command that sets signal handlers, which only a main thread may."""
    code, _, err = await command(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    return err


def test_every_model_is_asked_once_and_set_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it costs is said before; a run directory for each model and suite, one file that holds all, a table with a
    line a model and the verdict; asked again no server is needed; the figure is drawn from the file alone. A server
    that does not tell probabilities leaves perplexity undefined, with the reason.
    """
    written(tmp_path / "out", 10, 20)
    (tmp_path / "p.toml").write_text(PROFILE)
    with simulator_in_thread(str(tmp_path / "p.toml")) as url:
        code, cost, err = run_here(*evaluate(url, "--dry-run"))
        assert code == 0, err
        assert "ltf_test, step-20" in cost
        assert f"utility probe: {3 * 103} short requests" in cost
        assert not (tmp_path / "out-evaluation").exists()
        code, out, err = run_here(*evaluate(url))
        assert code == 0, err
        first = (tmp_path / "out-evaluation/evaluation.json").read_bytes()
    code, again, err = run_here(*evaluate(url))
    assert code == 0, err
    assert "asked" not in err
    assert (again, (tmp_path / "out-evaluation/evaluation.json").read_bytes()) == (out, first)
    found = json.loads(first)
    assert [one["model"] for one in found["models"]] == ["models/tiny", "step-10", "step-20"]
    assert found["about"]["suites"] == {"ltf_test": "1.4", "bbq": "1.7"}
    assert found["models"][0]["numbers"]["refusal_rate"]["n"] > 20
    bits = found["models"][0]["numbers"]["bits_per_byte"]
    assert bits["value"] is None
    assert bits["reason"].startswith("not measured: the server does not tell how probable a text is: ")
    for model in ("base", "step-10", "step-20"):
        for suite in ("ltf_test", "bbq"):
            run = json.loads((tmp_path / "out-evaluation" / model / suite / "result.json").read_text())
            assert run["counts"]["items"] <= 60
    assert json.loads((tmp_path / "out-evaluation/base/ltf_test/result.json").read_text())["axes"] == ["gender", "age"]
    assert "base tiny" in out
    assert "embedded, not comparable" in out
    assert "- step-20: " in out
    assert main(["mitigate", "regard-ft", "plot", "out-evaluation"]) == 0
    assert capsys.readouterr().out == "out-evaluation/evaluation.html\n"
    assert "step-20: " in (tmp_path / "out-evaluation/evaluation.html").read_text()
    assert main(["mitigate", "regard-ft", "plot", "out-evaluation", "--out", "figure.svg"]) == 0
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")


@pytest.mark.long
async def test_a_stopped_evaluation_goes_on(tmp_path: Path) -> None:
    """A signal ends it at once with a line that says how to go on; the same command asks the rest alone. A replaced
    checkpoint of the same name, other options and another version of a suite are refused in one line each.
    """
    written(tmp_path / "out", 10)
    (tmp_path / "p.toml").write_text(PROFILE + "[latency]\nfirst_token_seconds = 0.04\n")
    async with running_simulator(str(tmp_path / "p.toml")) as url:
        asked = evaluate(url, "--concurrency", "4")
        process = await start(*asked)
        replies = tmp_path / "out-evaluation/base/ltf_test/responses.jsonl"
        await eventually(lambda: replies.exists() and replies.stat().st_size > 0, within_seconds=60)
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 130
        assert said.decode().splitlines()[-1] == "stopped; what was answered is kept: run the same command again"
        kept = replies.read_bytes()
        assert not (replies.parent / "result.json").exists()
        assert "run mitigate regard-ft evaluate again" in refused("mitigate", "regard-ft", "plot", "out-evaluation")
        code, _, err = await command(*asked)
        assert code == 0, err
        assert replies.read_bytes().startswith(kept)

        assert 'seed was "0" and is now "3"' in await refused_process(*asked[:-1], "4", "--seed", "3")
        manifest = replies.parent / "run.json"
        manifest.write_text(manifest.read_text().replace('"suite_version": "1.4"', '"suite_version": "1.1"'))
        assert 'suite_version was "1.1" and is now "1.4"' in await refused_process(*asked)
        manifest.write_text(manifest.read_text().replace('"suite_version": "1.1"', '"suite_version": "1.4"'))
        (tmp_path / "out/checkpoint-10").rename(tmp_path / "before")
        written(tmp_path / "new" / "out", 10)
        (tmp_path / "new/out/checkpoint-10").rename(tmp_path / "out/checkpoint-10")
        assert "holds runs of another step-10" in await refused_process(*asked)


def test_a_server_without_the_models_is_named_with_what_it_serves(tmp_path: Path) -> None:
    """Before anything is asked or written."""
    written(tmp_path / "out", 10, 30)
    (tmp_path / "p.toml").write_text(PROFILE)
    with simulator_in_thread(str(tmp_path / "p.toml")) as url:
        code, _, err = run_here(*evaluate(url))
        assert (code, err.count("\n")) == (2, 1)
        assert 'does not serve "step-30", it serves models/tiny, step-10, step-20, judge' in err
    assert "does not say which models it serves" in refused(*evaluate(f"http://127.0.0.1:{free_port()}"))
    assert not (tmp_path / "out-evaluation").exists()


MISTAKES = {
    "evaluate nowhere --base-url http://h --judge-model j": "nowhere: no checkpoint is there",
    "evaluate ok": "evaluate needs a server",
    "evaluate ok --base-url http://h": "evaluate needs --judge-model",
    "evaluate ok --base-url http://h --judge-model j --checkpoints 7": "has 10, 20",
    "evaluate ok --base-url http://h --judge-model j --axes shoes": 'axis "shoes"',
    "evaluate ok --base-url http://h --judge-model j --limit 0": "at least 1, not 0",
    "evaluate mixed --base-url http://h --judge-model j": "step 20 was trained on another base model",
    "evaluate judge --base-url http://h --judge-model j": "a checkpoint of distilled-judge",
    "plot nowhere": "nowhere: no finished evaluation",
    "plot nowhere --out figure.pdf": "must end in .html or .svg",
}


def test_a_mistake_costs_one_line(tmp_path: Path) -> None:
    """What is wrong, the value, what to do; exit code 2."""
    written(tmp_path / "ok", 10, 20)
    written(tmp_path / "judge", 10, kind="distilled-judge")
    written(tmp_path / "mixed", 10)
    written(tmp_path / "mixed2", 20, fingerprint="c" * 64)
    (tmp_path / "mixed2/checkpoint-20").rename(tmp_path / "mixed/checkpoint-20")
    for arguments, message in MISTAKES.items():
        assert message in refused("mitigate", "regard-ft", *arguments.split())
