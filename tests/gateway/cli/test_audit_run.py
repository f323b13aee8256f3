"""`biasgate audit run` as a user runs it, against the simulated model."""

import asyncio
import json
import re
import signal
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.run import directory
from tests.support.benchmarks.replayed import saying
from tests.support.commands import command, run_here, start, stereoset
from tests.support.integration.scripted_upstream import scripted_upstream
from tests.support.processes import free_port
from tests.support.simulated import running_simulator, simulator_in_thread
from tests.support.waiting import eventually


def test_run_leaves_a_complete_directory(tmp_path: Path) -> None:
    """A run prints counts and a table, marks embedded data, and writes a result whose counts add up. A run that lacks
    nothing is not run again: --resume sends nothing. A dry run tells the minutes of six times as many replies from it.
    """
    with simulator_in_thread(seed=2) as url:
        code, out, err = run_here(*stereoset(url, "--out", "runs/first"))
    again = run_here("audit", "run", "--resume", "runs/first", "--base-url", url)  # nothing listens there any more
    forecast = run_here(*stereoset(url, "--samples", "6", "--dry-run", "--out", "runs/next"))

    assert (code, again[0]) == (0, 0), err
    assert "embedded, not comparable" in out
    assert "48/48 asked" in err
    result = directory.read_result(tmp_path / "runs/first")
    assert result.provenance.reply_tokens > 48
    row = forecast[1].splitlines()[1].split()
    assert row[2] == "288"
    sixfold = [6 * count for count in (result.provenance.prompt_tokens, result.provenance.reply_tokens)]
    assert [row[4], row[6]] == [f"{count:,}" for count in sixfold]
    assert float(row[-1]) == pytest.approx(6 * result.provenance.seconds / 60, abs=0.051)
    assert result.counts["items"] == 48
    assert sum(result.counts[s] for s in ("ok", "refusal", "unrelated", "malformed", "error")) == 48
    assert result.provenance.base_url_host == url.removeprefix("http://")
    assert any("simulator" in fingerprint for fingerprint in result.provenance.fingerprints)


def test_all_suites_on_embedded_data_are_a_few_items() -> None:
    """At most 240 of a suite, which a line says, and 2,000 requests in all; without --data none is left out."""
    every = "audit run --suite all --model m --base-url http://x --judge-model j --dry-run --out runs"
    assert re.search(r"^decision +620 ", run_here(*every.split())[1], re.MULTILINE)
    code, out, err = run_here(*every.split(), "--data", "embedded")
    n_items = [int(line.split()[1].replace(",", "")) for line in out.splitlines()[1:13]]

    assert code == 0, err
    assert "ltf_test: 240 of 11,948 built-in items; --limit asks more" in err
    assert (max(n_items[:-1]), n_items[-1] < 2_000) == (240, True)


def test_replies_of_earlier_runs_are_used_again_where_that_is_asked_for(tmp_path: Path) -> None:
    """At temperature 0 alone, and counted; the files are readable to their owner only."""
    used = {}
    with simulator_in_thread(seed=2) as url:
        for name, more in {
            "first": ("--temperature", "0", "--reply-cache"),
            "again": ("--temperature", "0", "--reply-cache"),
            "sampled": ("--reply-cache",),
        }.items():
            code, out, err = run_here(*stereoset(url, "--out", name, *more))
            assert code == 0, err
            result = directory.read_result(tmp_path / name)
            used[name] = (result.provenance.requests, result.provenance.replies_from_cache)
            assert ("stereoset: --reply-cache is not used" in err) == (name == "sampled")
            if name == "again":
                assert "48 of 48 replies are of earlier runs: --reply-cache" in out
                assert result.estimates == directory.read_result(tmp_path / "first").estimates

    assert used == {"first": (49, 0), "again": (1, 48), "sampled": (49, 0)}
    kept = [path for path in (tmp_path / "home" / "replies").rglob("*") if path.is_file()]
    assert len(kept) == 48
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


async def test_a_killed_run_is_completed_by_resume(tmp_path: Path) -> None:
    """kill -9 in the middle loses no reply that was kept; --resume asks the rest; each is there once."""
    async with running_simulator(seed=2) as url:
        process = await start(*stereoset(url, "--samples", "40", "--concurrency", "1", "--out", "run"))
        responses = tmp_path / "run" / "responses.jsonl"
        await eventually(lambda: responses.exists() and responses.read_bytes().count(b"\n") > 30)
        process.kill()
        await process.communicate()
        assert responses.read_bytes().count(b"\n") < 1920
        assert (await command("audit", "run", "--resume", "run", "--base-url", url, "--quiet"))[0] == 0

    lines = [json.loads(line) for line in responses.read_bytes().splitlines()]
    assert len(lines) == len({(line["item_id"], line["sample"]) for line in lines}) == 1920
    assert directory.read_result(tmp_path / "run").n_replies == 1920


@pytest.mark.parametrize(
    ("number", "answer"),
    [(signal.SIGINT, b""), (signal.SIGTERM, b"HTTP/1.1 503 Busy\r\nRetry-After: 60\r\ncontent-length: 0\r\n\r\n")],
)
async def test_a_run_that_waits_ends_at_a_signal(number: signal.Signals, answer: bytes) -> None:
    """No server answers, or every request is told to wait a minute: a signal ends the run and says how to go on."""
    n_asked = 0

    def counted() -> bytes:
        nonlocal n_asked
        n_asked += 1
        return answer

    async with saying(counted) as url:
        process = await start(*stereoset(url, "--samples", "1000", "--limit", "3", "--out", "run"))
        await eventually(lambda: n_asked >= 1)  # whether it thinks, before all others
        process.send_signal(number)
        began = time.monotonic()
        _, err = await process.communicate()
        spent = time.monotonic() - began

    assert process.returncode == 130
    assert spent < 5.0  # it would wait sixty; the rest is an interpreter's end on a machine that may be busy
    # A run that has to be cut off after a second no longer says how far it was.
    assert re.search(
        r"stopped( after 0 of 3000 replies)?; complete it with: biasgate audit run --resume run", err.decode()
    )


async def test_an_interrupt_keeps_replies_that_wait_for_their_judge(tmp_path: Path) -> None:
    """Ctrl-C while the judge is silent leaves the model's replies in the log; --resume asks the judge alone."""
    texts = tmp_path / "run" / "responses.jsonl"
    judging = ("--judge-model", "simulated-judge", "--judge-base-url")
    n_waiting = 0

    def silent() -> bytes:
        nonlocal n_waiting
        n_waiting += 1
        return b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n" if n_waiting == 1 else b""  # the list of models

    async with running_simulator() as url:
        asked = ("--model", "simulated", "--data", "embedded", "--limit", "8", "--concurrency", "4", "--out", "run")
        async with saying(silent) as judge:
            process = await start("audit", "run", "--suite", "ltf_test", "--base-url", url, *judging, judge, *asked)
            await eventually(lambda: n_waiting == 1 + 4)
            process.send_signal(signal.SIGINT)
            await process.communicate()
        kept = {reply["item_id"]: reply for reply in map(json.loads, texts.read_bytes().splitlines())}
        async with running_simulator() as judge:
            resumed = await command("audit", "run", "--resume", "run", "--base-url", url, *judging, judge, "--quiet")
        page = await asyncio.to_thread(lambda: urlopen(f"{url}/metrics").read().decode())
    n_finished = sum(float(n) for n in re.findall(r"^vllm:request_success_total.* (\S+)$", page, re.MULTILINE))
    replies = [json.loads(line) for line in texts.read_bytes().splitlines()]
    latest = {reply["item_id"]: reply for reply in replies}

    assert (process.returncode, resumed[0]) == (130, 0), resumed[2]
    assert [reply["error"] for reply in kept.values()] == ["no judgement: unavailable: the run was stopped"] * 4
    assert all(latest[item_id]["text"] == reply["text"] != "" for item_id, reply in kept.items())
    assert all(latest[item_id]["fingerprint"] == reply["fingerprint"] for item_id, reply in kept.items())
    assert 8 <= n_finished <= 8 + 2  # and whether it thinks, asked by each process
    assert len(latest) == 8
    assert {reply["status"] for reply in latest.values()} <= {"ok", "refusal"}


async def test_resume_asks_whom_the_command_line_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run.json that was changed sends neither questions nor keys anywhere; what is missing is one line."""
    monkeypatch.setenv("STOLEN_KEY", "secret-of-another-service")
    async with running_simulator() as url, scripted_upstream() as thief:
        assert (await command(*stereoset(url, "--out", "run", "--limit", "6", "--quiet")))[0] == 0
        path, responses = tmp_path / "run" / "run.json", tmp_path / "run" / "responses.jsonl"
        changed = {"base_url": thief.base_url, "api_key_env": "STOLEN_KEY", "through_gateway": True}
        path.write_text(json.dumps(json.loads(path.read_text()) | changed | {"judge_base_url": thief.base_url}))
        responses.write_bytes(b"".join(responses.read_bytes().splitlines(keepends=True)[:3]))
        code, _, err = await command("audit", "run", "--resume", "run")
        resumed, _, _ = await command("audit", "run", "--resume", "run", "--base-url", url, "--quiet")

    assert code == 2
    assert err.strip() == (
        "biasgate: run: servers and keys are not taken from a run directory: give --base-url URL or --gateway URL "
        "again with --resume, and --api-key-env VAR where the server wants a key"
    )
    assert resumed == 0
    assert thief.connections == 0
    assert directory.read_result(tmp_path / "run").n_replies == 6


def test_a_judge_of_its_own_is_named_again() -> None:
    """What was judged by one server is not judged on by another because an argument was forgotten."""
    with simulator_in_thread() as url, simulator_in_thread() as judge:
        server = ("--base-url", url, "--model", "simulated", "--data", "embedded", "--limit", "4", "--quiet")
        asked = ("--judge-model", "simulated-judge", "--judge-base-url", judge, "--out", "run")
        assert run_here("audit", "run", "--suite", "ltf_test", *server, *asked)[0] == 0
        code, _, err = run_here("audit", "run", "--resume", "run", "--base-url", url)

    assert code == 2
    assert "give --judge-base-url URL again with --resume" in err


def test_a_mitigation_from_a_file(tmp_path: Path) -> None:
    """The text is asked before every question and kept in full; resume takes it from the run, and no other."""
    own, other = tmp_path / "own.txt", tmp_path / "other.txt"
    own.write_text("Weigh both sides.\n", encoding="utf-8")
    other.write_text("Weigh all sides.\n", encoding="utf-8")
    with simulator_in_thread() as url:
        asked = ("--mitigation", str(own), "--limit", "5", "--out", "run", "--quiet")
        assert run_here(*stereoset(url, *asked))[0] == 0
        own.unlink()
        assert run_here("audit", "run", "--resume", "run", "--base-url", url, "--quiet")[0] == 0
        code, _, err = run_here("audit", "run", "--resume", "run", "--mitigation", str(other))

    recorded, result = directory.read_manifest(tmp_path / "run"), directory.read_result(tmp_path / "run")
    assert code == 2
    assert f'mitigation was "{result.mitigation}" and is now "file:' in err
    assert recorded.options.mitigation_text == "Weigh both sides."
    assert result.mitigation.startswith("file:")
    assert all(
        o.item.messages[-1].content.startswith("Weigh both sides.\n") for o in directory.observations(tmp_path / "run")
    )


def test_an_unknown_model_is_one_line() -> None:
    """The server's own words and exit code 2; no empty run is left, and another server than a gateway is named."""
    with simulator_in_thread() as url:
        arguments = [word.replace("--base-url", "--gateway") for word in stereoset(url, "--out", "run")]
        code, _, err = run_here(*[argument.replace("simulated", "nobody") for argument in arguments])

    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "the model server refuses: status 404" in last
    assert ("start again" in last, "--model nobody" in err) == (True, False)
    assert not Path("run").exists()
    assert "/readyz does not answer as a gateway does" in err


def test_a_server_that_is_not_there_is_one_line() -> None:
    """It says what became of the first requests, and how to go on."""
    code, _, err = run_here(*stereoset(f"http://127.0.0.1:{free_port()}", "--out", "run"))

    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "none of the first 20 requests to the model server was answered" in last
    assert "start again" in last


def test_a_sweep_over_temperatures(tmp_path: Path) -> None:
    """Each temperature is a run of its own; another on resume is one line."""
    with simulator_in_thread() as url:
        done, _, _ = run_here(*stereoset(url, "--temperature", "0,0.5", "--out", str(tmp_path / "sweep")))
        resumed, _, refused = run_here(
            "audit", "run", "--resume", str(tmp_path / "sweep/temperature-0.5"), "--temperature", "0.7"
        )
    swept = [tmp_path / f"sweep/temperature-{one}" for one in ("0", "0.5")]
    temperatures = {path.name: directory.read_result(path).temperature for path in swept}

    assert (done, resumed) == (0, 2)
    assert temperatures == {"temperature-0": 0.0, "temperature-0.5": 0.5}
    assert 'temperature was "0.5" and is now "0.7"' in refused
