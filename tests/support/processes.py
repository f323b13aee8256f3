"""Real processes for tests: started on a free port, waited for, stopped by their id, output kept for a failure."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BIASGATE = (sys.executable, "-m", "gateway")


def free_port() -> int:
    """A loopback port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    *,
    ready_url: str,
    log: Path,
    environ: Mapping[str, str] | None = None,
    within_seconds: float = 90.0,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; raise RuntimeError with its log if it is not ready in time."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environ or {})}, start_new_session=True
        )
    try:
        _await_ready(process, ready_url, log, within_seconds)
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes], *, within_seconds: float = 20.0) -> int:
    """SIGTERM, then SIGKILL to whatever is left of its group. Returns the exit status."""
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait(5)


def _await_ready(process: subprocess.Popen[bytes], url: str, log: Path, within_seconds: float) -> None:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"ended with status {process.returncode} before it was ready:\n{_tail(log)}")
        with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(url, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer 200 within {within_seconds:.0f} s:\n{_tail(log)}")


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
