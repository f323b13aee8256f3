"""Nothing from outside reaches a terminal as something that the terminal obeys."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from auditors.text.visible import visible, visible_line
from benchmarks.run.runner import Progress
from gateway.__main__ import main
from gateway.children import logs
from gateway.config.schema import TelemetryConfig
from gateway.terminal import guard as terminal
from gateway.terminal.guard import GuardedStream, guarded_streams
from gateway.terminal.progress import ProgressLine, status_line
from gateway.terminal.tables import aligned

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x1b]52;c;bHM=\x07\x9b31m\r\b\x7f\u202eevil\u2066\u2069\u200f\u2028next\nfake: ok\tx\udc9b"
    "\U000e0041"
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0041]")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def harmless(text: str) -> bool:
    """Whether it holds nothing but text, newlines and tabs; heads of tables may be bold."""
    return not OBEYED.search(text.replace("\x1b[1m", "").replace("\x1b[0m", ""))


def test_every_unsafe_character_is_escaped_and_no_other() -> None:
    """Each becomes what JSON writes for it, so JSON stays the same; text in any script stays as it is."""
    assert visible("ĄÖ 日本 עברית العربية 👩‍👧 a\tb\n") == "ĄÖ 日本 עברית العربية 👩‍👧 a\tb\n"
    assert visible("\x1b[31m\u202e\x9b") == "\\u001b[31m\\u202e\\u009b"
    assert visible_line("a\nb\tc") == "a\\nb\\tc"
    assert harmless(visible(HOSTILE))
    assert "\n" not in visible_line(HOSTILE)
    text = "\x7f\x9b\u202e\u2028\U000e0041 ok"
    document = json.dumps({"name": text}, ensure_ascii=False)
    assert json.loads(visible(document)) == {"name": text}


def test_whatever_is_printed_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By print, by write, and by what draws tables; the streams are the old ones afterwards."""
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with guarded_streams(), guarded_streams():
        print(HOSTILE, HOSTILE, file=sys.stderr)  # noqa: T201 - what every command does
        sys.stdout.writelines([HOSTILE])
        print(aligned([["name", HOSTILE], ["a", HOSTILE]]))  # noqa: T201 - as commands print tables
        assert sys.stdout.isatty()
    assert (sys.stdout, sys.stderr) == (out, err)
    assert harmless(err.getvalue())
    assert harmless(out.getvalue())
    assert "title" in out.getvalue()


def test_a_newline_in_a_cell_begins_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name cannot draw a row of its own."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert aligned([["name", "value"], ["a\nb  2", "1"]]).splitlines() == ["name     value", "a\\nb  2  1"]


def test_bars_and_status_lines_escape_what_they_show() -> None:
    """They draw by themselves, so they get the stream itself, and escape their texts."""
    bars, plain, status = Terminal(), io.StringIO(), Terminal()
    progress = Progress(done=1, total=1, n_errors=0, rate=0.0, eta_seconds=None)
    line = ProgressLine(HOSTILE, GuardedStream(bars))  # type: ignore[arg-type]  # it wraps a text stream
    line(progress)
    line.close()
    ProgressLine(HOSTILE, plain)(progress)
    with status_line(status) as show:
        show(HOSTILE)
    for drawn in (bars, plain, status):
        for spoiled in ("\x1b]", "\x9b", "\u202e", "\x07", "\nfake"):
            assert spoiled not in drawn.getvalue()
    assert "title" in plain.getvalue()
    assert harmless(plain.getvalue())


def test_log_records_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value of a record and the words of an exception are escaped; colours stay."""
    monkeypatch.setattr("logging.root.handlers", [])
    stream = Terminal()
    logs.configure(TelemetryConfig(log_format="console"), role="test", stream=stream)
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            structlog.get_logger("x").exception(HOSTILE, model=HOSTILE)
    finally:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
    coloured = re.compile("\x1b\\[[0-9;]*m")
    assert harmless(coloured.sub("", stream.getvalue()))
    assert "\nfake: ok\t" not in stream.getvalue().partition("Traceback")[0]


@pytest.mark.parametrize(
    "arguments",
    [
        [HOSTILE],
        ["suites", HOSTILE],
        ["datasets", "fetch", HOSTILE],
        ["config", "check", "--config", HOSTILE],
        ["audit", "report", HOSTILE],
        ["audit", "run", "--suite", HOSTILE, "--model", "m", "--base-url", "http://127.0.0.1:9"],
        ["audit", "verify", HOSTILE],
        ["audit", "gate", "x", "--require", HOSTILE],
        ["canary", "status", "x", "--gateway", HOSTILE],
        ["ingest", HOSTILE],
    ],
)
def test_mistakes_are_quoted_harmlessly(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is named in one line, whatever it is called."""
    with pytest.raises(SystemExit, match=r"^[12]$"):  # as argparse ends
        sys.exit(main(arguments))
    written = capsys.readouterr()
    assert harmless(written.out + written.err)
    assert len(written.err.splitlines()) == 1, written.err


def test_a_model_of_an_imported_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name that somebody else gave a model is shown as text by import, report, compare and gate."""
    recorded = Path(__file__).parents[1] / "features" / "formats" / "harness_logs" / "recorded" / "inspect.json"
    document = json.loads(recorded.read_text())
    name = HOSTILE.replace("\udc9b", "")
    document["eval"] |= {"model": name, "task": name, "packages": {"inspect_ai": name}}
    (tmp_path / "log.json").write_text(json.dumps(document))
    run = str(tmp_path / "run")
    arguments = ["--from", "inspect", "--suite", "bbq", "--data", "embedded", "--out", run]
    assert main(["audit", "import", str(tmp_path / "log.json"), *arguments]) == 0
    assert main(["audit", "compare", run, run]) == 0
    assert main(["audit", "export", run, "--to", "model-card"]) == 0
    main(["audit", "gate", run, "--require", "bbq.accuracy > 0"])
    written = capsys.readouterr()
    assert harmless(written.out + written.err)
    assert not [line for line in written.out.splitlines() if line.startswith("fake: ok")]
    assert terminal.unguarded(sys.stdout) is sys.stdout


@pytest.mark.parametrize(
    ("stream", "arguments"),
    [
        *(("stdout", ["help"]), ("stdout", ["audit", "run", "--help"]), ("stdout", ["suites", "--json"])),
        ("stderr", ["nonsense"]),
    ],
)
def test_a_reader_that_has_gone_ends_a_command_quietly(stream: str, arguments: list[str]) -> None:
    """`biasgate help | head -3` ends with the exit code of a closed pipe and no traceback, whatever is printed."""
    reading, writing = os.pipe()
    os.close(reading)
    stdout, stderr = (writing if stream == name else subprocess.PIPE for name in ("stdout", "stderr"))
    ended = subprocess.run([sys.executable, "-m", "gateway", *arguments], stdout=stdout, stderr=stderr, check=False)
    os.close(writing)

    assert ended.returncode == 128 + signal.SIGPIPE
    assert not ended.stdout
    assert not ended.stderr
