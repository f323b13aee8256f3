"""What a gateway process costs before it relays anything: time until ready, and memory per worker."""

import os
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.processes import free_port, stop
from tools.bench.contestants import biasgate


def start_seconds(upstream: str, home: Path, *, times: int) -> float:
    """Median time from exec to a 200 of /readyz."""
    return statistics.median(_one_start(upstream, home) for _ in range(times))


def resident_bytes(pid: int) -> list[int]:
    """Resident memory of a process and each of its descendants, largest first."""
    return sorted((_resident(one) for one in (pid, *_descendants(pid))), reverse=True)


def _one_start(upstream: str, home: Path) -> float:
    port = free_port()
    command = biasgate(0.01)(upstream, port, home)
    started = time.perf_counter()
    process = subprocess.Popen(
        command.argv,
        env={**os.environ, **command.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not _answers(f"http://127.0.0.1:{port}{command.ready_path}"):
            if process.poll() is not None or time.perf_counter() - started > 30:
                raise RuntimeError(f"biasgate gateway is not ready after 30 s (status {process.poll()})")
            time.sleep(0.01)
        return time.perf_counter() - started
    finally:
        stop(process)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *_descendants(child))]


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
