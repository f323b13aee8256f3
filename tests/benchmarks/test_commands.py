"""`biasgate audit`, `suites` and `datasets` as a user runs them, against the simulated model."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.run import directory
from benchmarks.run.result import Result
from benchmarks.run.runner import Progress
from gateway.__main__ import main
from gateway.cli import VERBS
from gateway.cli.progress import in_words
from gateway.cli.tables import aligned
from tests.support.benchmarks.scripted import pick, plan
from tests.support.processes import free_port
from tests.support.published import DATA, needs_data
from tests.support.simulated import running_simulator

Say = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command sees an empty dataset cache and works in its own folder."""
    monkeypatch.setenv("BIASGATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BIASGATE_DATASETS_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


async def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a real `biasgate` process."""
    process = await start(*arguments)
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def start(*arguments: str, stderr: int = subprocess.PIPE) -> asyncio.subprocess.Process:
    root = Path(__file__).parents[2]
    environ: Mapping[str, str] = os.environ | {"PYTHONPATH": str(root)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, stdout=subprocess.PIPE, stderr=stderr, env=environ
    )


def stereoset(url: str, *more: str) -> tuple[str, ...]:
    server = ("--base-url", url, "--model", "simulated", "--data", "embedded")
    return ("audit", "run", "--suite", "stereoset", *server, *more)


def scored(path: Path, role: str = "stereotype") -> Path:
    """A run directory made by `audit score` from a scripted model's replies."""
    replies = path.with_suffix(".jsonl")
    lines = [{"item_id": item.item_id, "text": pick(role)(item)} for item in plan().items]
    replies.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
    assert main([*arguments, "--responses", str(replies), "--out", str(path)]) == 0
    return path


async def test_run_leaves_a_complete_directory(tmp_path: Path) -> None:
    """A run prints counts and a table, marks embedded data, and writes a result whose counts add up."""
    async with running_simulator(seed=2) as url:
        code, out, err = await command(*stereoset(url, "--out", "run"))

    assert code == 0, err
    assert "embedded, not comparable" in out
    assert "48/48 asked" in err
    result = directory.read_result(tmp_path / "run")
    assert result.counts["items"] == 48
    assert sum(result.counts[s] for s in ("ok", "refusal", "unrelated", "malformed", "error")) == 48
    assert result.provenance.base_url_host == url.removeprefix("http://")
    assert any("simulator" in fingerprint for fingerprint in result.provenance.fingerprints)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
async def test_a_cut_run_is_completed_by_resume(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C or kill -9 in the middle loses no reply that was kept; --resume asks the rest; each is there once."""
    async with running_simulator(seed=2) as url:
        process = await start(*stereoset(url, "--samples", "40", "--concurrency", "1", "--out", "run"))
        responses = tmp_path / "run" / "responses.jsonl"
        await until(lambda: responses.exists() and responses.read_bytes().count(b"\n") > 30)
        process.send_signal(number)
        _, err = await process.communicate()
        kept = responses.read_bytes().count(b"\n")

        assert process.returncode == code
        assert kept < 1920
        if number == signal.SIGINT:
            assert f"stopped after {kept} of 1920 replies" in err.decode()
            assert "complete it with: biasgate audit run --resume run" in err.decode()
        assert (await command("audit", "run", "--resume", "run", "--quiet"))[0] == 0

    lines = [json.loads(line) for line in responses.read_bytes().splitlines()]
    assert len(lines) == len({(line["item_id"], line["sample"]) for line in lines}) == 1920
    assert directory.read_result(tmp_path / "run").n_replies == 1920


async def test_a_terminal_shows_a_bar_and_ctrl_c_leaves_a_resumable_directory(tmp_path: Path) -> None:
    """The bar says how much is done, the rate and the time left; Ctrl-C gives the cursor back, --resume completes."""
    async with running_simulator(seed=2) as url:
        terminal, theirs = pty.openpty()
        process = await start(*stereoset(url, "--samples", "40", "--concurrency", "1", "--out", "run"), stderr=theirs)
        os.close(theirs)
        shown = asyncio.create_task(asyncio.to_thread(read_all, terminal))
        responses = tmp_path / "run" / "responses.jsonl"
        await until(lambda: responses.exists() and responses.read_bytes().count(b"\n") > 120)
        process.send_signal(signal.SIGINT)
        code, text = await process.wait(), await shown
        resumed, _, plain = await command("audit", "run", "--resume", "run")

    assert (code, resumed) == (130, 0)
    assert re.search(r"stereoset.* \d+/1920 asked, \d+\.\d/s, \d+:\d\d left", text)
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "complete it with: biasgate audit run --resume run" in text
    assert plain.splitlines()[-1].startswith("stereoset: 1920/1920 asked")
    assert "\x1b" not in plain


def read_all(terminal: int) -> str:
    """What is written to the other side of a terminal until it is closed."""
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # EIO: nobody holds the other side any more
            os.close(terminal)
            return shown.decode()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is awaited is a file written by another process
        await asyncio.sleep(0.01)


async def test_resume_refuses_other_options(tmp_path: Path) -> None:
    """Resuming with another seed is refused with both values."""
    async with running_simulator() as url:
        assert (await command(*stereoset(url, "--out", "run", "--quiet")))[0] == 0
        code, _, err = await command("audit", "run", "--resume", "run", "--seed", "3")

    assert code == 2
    assert 'seed was "0" and is now "3"' in err


async def test_a_mitigation_from_a_file(tmp_path: Path) -> None:
    """The text is asked before every question and kept in full; resume takes it from the run, and no other."""
    own, other = tmp_path / "own.txt", tmp_path / "other.txt"
    own.write_text("Weigh both sides.\n", encoding="utf-8")
    other.write_text("Weigh all sides.\n", encoding="utf-8")
    async with running_simulator() as url:
        asked = ("--mitigation", str(own), "--limit", "5", "--out", "run", "--quiet")
        assert (await command(*stereoset(url, *asked)))[0] == 0
        own.unlink()
        assert (await command("audit", "run", "--resume", "run", "--quiet"))[0] == 0
        code, _, err = await command("audit", "run", "--resume", "run", "--mitigation", str(other))

    recorded, result = directory.read_manifest(tmp_path / "run"), directory.read_result(tmp_path / "run")
    assert code == 2
    assert f'mitigation was "{result.mitigation}" and is now "file:' in err
    assert recorded.options.mitigation_text == "Weigh both sides."
    assert result.mitigation.startswith("file:")
    assert all(
        o.item.messages[-1].content.startswith("Weigh both sides.\n") for o in directory.observations(tmp_path / "run")
    )


async def test_an_unknown_model_is_one_line(tmp_path: Path) -> None:
    """The server's own words, what was kept, and exit code 2."""
    async with running_simulator() as url:
        arguments = stereoset(url, "--out", "run")
        code, _, err = await command(*[argument.replace("simulated", "nobody") for argument in arguments])

    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "the model server refuses: status 404" in last
    assert "--resume run" in last
    assert "Traceback" not in err


async def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """It says what became of the first requests, and how to go on."""
    code, _, err = await command(*stereoset(f"http://127.0.0.1:{free_port()}", "--out", str(tmp_path / "run")))

    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "none of the first 20 requests to the model server was answered" in last
    assert "--resume" in last


def test_what_was_asked_is_not_called_a_reply() -> None:
    """Requests without an answer are counted apart."""
    progress = Progress(done=40, total=48, rate=8.0, eta_seconds=1.0, n_errors=3)
    assert in_words(progress) == "40/48 asked, 3 unanswered, 8.0/s, 0:01 left"


@pytest.mark.parametrize(("is_terminal", "term"), [(False, "xterm"), (True, "dumb"), (True, "xterm")])
def test_a_table_is_whole(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str) -> None:
    """No cut and no wrapped cell, however narrow the terminal; markup is text; bold heads on a terminal that can."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    long = "[bold]" + "why " * 50 + "not"
    rows = [["metric", "95 % interval", ""], ["ss", "12.5 to 1234567.8", long], ["lms", "–", ""]]

    head, *body = aligned(rows).splitlines()

    bold = is_terminal and term == "xterm"
    assert head == ("\x1b[1mmetric  95 % interval\x1b[0m" if bold else "metric  95 % interval")
    assert body == [f"ss      12.5 to 1234567.8  {long}", "lms     –"]


class TestMistakes:
    """Wrong usage costs one line and exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["audit", "run", "--suite", "stereset"], "needs --model"),
            (["audit", "run", "--suite", "stereoset", "--model", "m"], "needs a server"),
            (["audit", "run", "--resume", "nowhere"], "no run directory"),
            (["audit", "compare", "x", "y"], "no run directory"),
            (["audit", "report", "x", "--out", "r.html"], "no result.json"),
            (["audit", "gate", "x", "--require", "nonsense"], "is not of the form"),
            (["suites", "--items", "stereoset", "--data", "embedded"], "needs --out FILE"),
            (["datasets", "fetch", "steroset"], 'did you mean "stereoset"'),
            (["datasets", "fetch", "stereoset", "--mirror", "/nonexistent"], "the mirror has no"),
        ],
    )
    def test_one_line(self, arguments: list[str], words: str, capsys: Say) -> None:
        """What is wrong, with the value."""
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert words in err
        assert len(err.strip().splitlines()) == 1

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (["--suite", "eec", "--mode", "exact"], 'eec: mode "exact" is not offered; offered: sample'),
            (["--suite", "bbq", "--protocol", "release"], 'bbq: protocol "release" is not offered'),
            (["--mode", "exact", "--samples", "2"], "samples must be 1, not 2"),
            (["--few-shot", "2"], "few-shot 2 is not offered"),
            (
                ["--mitigation", "abstrct"],
                'mitigation "abstrct" is no file and none of none, abstract, detailed (did you',
            ),
            (["--concurrency", "many"], "must be auto or a whole number"),
            (["--api-key-env", "NO_SUCH_VARIABLE"], '"NO_SUCH_VARIABLE" (--api-key-env) is not set'),
            (["--data", "canonical"], "biasgate datasets fetch stereoset"),
        ],
    )
    def test_what_is_not_offered_is_refused(self, more: list[str], words: str, capsys: Say, tmp_path: Path) -> None:
        """An option that cannot be honoured is refused before anything is written or asked."""
        assert main([*stereoset("http://127.0.0.1:9", "--out", "run"), *more]) == 2
        assert words in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "arguments", [["audit", "run", "--sute", "x"], ["audit"], ["audit", "run", "--limit", "x"]]
    )
    def test_argparse_speaks_one_line_too(self, arguments: list[str], capsys: Say) -> None:
        """Unknown flags and words end with exit code 2 and one line."""
        with pytest.raises(SystemExit) as ended:
            main(arguments)

        assert ended.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1

    @pytest.mark.parametrize(
        "words",
        [
            *("audit run", "audit score", "audit compare", "audit gate", "audit report", "config check"),
            *("datasets list", "datasets fetch", "datasets verify", "exchanges delete", "exchanges access"),
            *("judge calibrate", *VERBS),
        ],
    )
    def test_every_command_has_help_with_an_example(self, words: str, capsys: Say) -> None:
        """--help shows a command line to copy."""
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), "--help"])

        assert ended.value.code == 0
        assert f"biasgate {words}" in " ".join(capsys.readouterr().out.split("Example")[1].split())


async def test_a_sweep_over_temperatures(tmp_path: Path) -> None:
    """Each temperature is a run of its own; a wrong one, or another on resume, is one line."""
    async with running_simulator() as url:
        done, _, _ = await command(*stereoset(url, "--temperature", "0,0.5", "--out", str(tmp_path / "sweep")))
        wrong, _, said = await command(*stereoset(url, "--temperature", "warm", "--out", str(tmp_path / "wrong")))
        resumed, _, refused = await command(
            "audit", "run", "--resume", str(tmp_path / "sweep/temperature-0.5"), "--temperature", "0.7"
        )
    swept = [tmp_path / f"sweep/temperature-{one}" for one in ("0", "0.5")]
    temperatures = {path.name: directory.read_result(path).temperature for path in swept}

    assert (done, wrong, resumed) == (0, 2, 2)
    assert temperatures == {"temperature-0": 0.0, "temperature-0.5": 0.5}
    assert '--temperature "warm" must be a number' in said
    assert 'temperature was "0.5" and is now "0.7"' in refused


async def test_options_without_use_are_said(tmp_path: Path) -> None:
    """A judge or an embedder for a suite that has none is said not to be used."""
    async with running_simulator() as url:
        _, _, err = await command(*stereoset(url, "--judge-model", "j", "--embedder", "e", "--out", "run"))

    assert "stereoset: no judge is needed" in err
    assert "stereoset: no embedder is needed" in err


class TestAfterwards:
    """Score, compare, gate and report on directories."""

    def test_score_then_gate(self, tmp_path: Path, capsys: Say) -> None:
        """A gate passes, fails and reports an undefined number, with exit codes 0, 1 and 1."""
        path = str(scored(tmp_path / "run"))

        assert main(["audit", "gate", path, "--require", "stereoset.lms.lower > 80"]) == 0
        assert main(["audit", "gate", path, "--require", "stereoset.ss.upper < 60"]) == 1
        few = "stereoset.ss[axis=gender,subset=intersentence].upper < 101"
        assert main(["audit", "gate", path, "--require", few]) == 1
        assert "upper is undefined: no interval: 6 target terms" in capsys.readouterr().out

    def test_compare_prints_and_writes(self, tmp_path: Path, capsys: Say) -> None:
        """The table is printed, and --out holds all of it."""
        a, b = scored(tmp_path / "a"), scored(tmp_path / "b", "anti-stereotype")

        assert main(["audit", "compare", str(a), str(b), "--out", "difference.json"]) == 0
        written = json.loads((tmp_path / "difference.json").read_text(encoding="utf-8"))
        assert written["n_paired"] == 48
        assert "adjusted (Holm)" in capsys.readouterr().out

    async def test_a_mitigation_is_printed_as_differences(self, tmp_path: Path, capsys: Say) -> None:
        """The plain run's values, then signed differences with intervals, a table a metric, the mean last."""
        async with running_simulator() as url:
            assert (await command(*stereoset(url, "--out", "a", "--quiet")))[0] == 0
            added = ("--mitigation", "abstract")
            assert (await command(*stereoset(url, *added, "--out", "b", "--quiet")))[0] == 0
            code, out, _ = await command("audit", "compare", "a", "b")

        table = next(part for part in out.split("\n\n") if part.startswith("SS "))
        head, before, after, *_ = table.splitlines()
        assert code == 0
        assert "the runs differ in: mitigation none and abstract" in out
        assert head.split()[1:5] == ["gender", "profession", "race", "religion"]
        assert head.endswith("mean (pooled)")
        assert before.startswith("A simulated ")
        assert after.startswith("B simulated + abstract ")
        assert all(number[0] in "+−0" for number in after.removeprefix("B simulated + abstract").split())

    def test_report_of_several(self, tmp_path: Path, capsys: Say) -> None:
        """One page from two runs."""
        a, b = scored(tmp_path / "a"), scored(tmp_path / "b", "unrelated")

        assert main(["audit", "report", str(a), str(b), "--out", "r.html"]) == 0
        assert "Side by side" in (tmp_path / "r.html").read_text(encoding="utf-8")
        assert capsys.readouterr().out.endswith("r.html\n")

    def test_missing_replies_are_said(self, tmp_path: Path, capsys: Say) -> None:
        """Scoring part of a suite says how much is not there."""
        item = plan().items[0]
        line = json.dumps({"item_id": item.item_id, "text": "x"})
        (tmp_path / "few.jsonl").write_text(line, encoding="utf-8")

        arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
        assert main([*arguments, "--responses", "few.jsonl"]) == 0
        assert "47 of 48 replies are not in the file" in capsys.readouterr().out


class TestCatalogue:
    """suites and datasets."""

    def test_suites_lists_and_is_json(self, capsys: Say) -> None:
        """A table for people, JSON for programs."""
        assert main(["suites"]) == 0
        assert "absent: biasgate datasets fetch stereoset" in capsys.readouterr().out
        assert main(["suites", "--json"]) == 0
        items = {suite["name"]: suite["items"] for suite in json.loads(capsys.readouterr().out)}
        assert items["stereoset"] == {"canonical": 4229, "embedded": 48}

    def test_items_are_written_without_running(self, tmp_path: Path, capsys: Say) -> None:
        """One line an item, and nothing is asked."""
        arguments = ["suites", "--items", "stereoset", "--data", "embedded", "--protocol", "paper", "--out", "i.jsonl"]

        assert main(arguments) == 0
        assert len((tmp_path / "i.jsonl").read_bytes().splitlines()) == 48
        assert "48 items of stereoset" in capsys.readouterr().out

    @needs_data
    def test_fetch_list_verify(self, home: Path, capsys: Say) -> None:
        """Fetched from the mirror, listed as present; a damaged copy fails verification with both hashes."""
        assert main(["datasets", "fetch", "stereoset", "--mirror", str(DATA)]) == 0
        assert main(["datasets", "verify"]) == 0
        assert "present" in capsys.readouterr().out
        content = home / "datasets" / "stereoset" / "content.json"
        content.write_bytes(content.read_bytes()[:-1])
        assert main(["datasets", "verify", "stereoset"]) == 1
        assert "damaged: expected 200f8eea" in capsys.readouterr().out

    def test_verify_of_what_is_absent(self, capsys: Say) -> None:
        """Absent data is no failure unless it was asked for by name."""
        assert main(["datasets", "verify"]) == 0
        assert main(["datasets", "verify", "stereoset"]) == 1
        assert main(["datasets", "list"]) == 0
        assert "absent" in capsys.readouterr().out


def test_result_is_what_others_decode(tmp_path: Path) -> None:
    """result.json is the struct that every other part reads."""
    assert isinstance(directory.read_result(scored(tmp_path / "run")), Result)
