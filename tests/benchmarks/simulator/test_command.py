"""`biasgate simulate` as a person runs it."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gateway.__main__ import main


def test_it_says_where_it_is_ready_and_stops_on_a_signal() -> None:
    """One line with the URL, the profile and the seed; SIGTERM ends it without a traceback."""
    started = subprocess.Popen(
        [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--profile", "null", "--seed", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdout is not None
        line = started.stdout.readline()
        try:
            assert line.startswith("biasgate simulator ready on http://127.0.0.1:")
            assert 'profile "null", seed 4' in line
            address = line.split()[4].removesuffix("/v1")
            with urllib.request.urlopen(f"{address}/health", timeout=10) as reply:
                assert reply.status == 200
        finally:
            started.send_signal(signal.SIGTERM)
        _, errors = started.communicate(timeout=20)
    assert errors == ""


def test_what_cannot_be_started_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 with what to do: a taken port, an unknown profile, and a named cache that holds nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, words in (
            (["--port", port], f"127.0.0.1:{port}"),
            (["--profile", "nul"], "null"),
            (["--port", "0", "--data-dir", str(tmp_path)], "datasets fetch"),
        ):
            assert main(["simulate", *options]) == 2
            error = capsys.readouterr().err
            assert error.count("\n") == 1
            assert words in error
