"""`biasgate demo`: real processes, the official client, the packaged embedder. `tests/test_wheel.py` runs it whole."""

import re
import subprocess

import pytest

from benchmarks.suites.registry import SUITES
from tests.support.integration.serving import command, is_alive
from tests.support.waiting import eventually
from tools.bench.gateway.arena import tree

DEMO_SECONDS = 600
"""Six times what it takes alone on two cores: it must also end well beside other work."""
LONGEST_OUTPUT = 80
"""Lines, without --verbose."""


def assert_as_planted(shown: subprocess.CompletedProcess[str]) -> None:
    """The planted drift alarms, nothing alarms before it, every suite finishes, and every request is accounted for."""
    assert shown.returncode == 0, shown.stdout + shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= LONGEST_OUTPUT
    assert "Alarms so far: 0" in shown.stdout
    assert "ALARM judge favoritism gender man" in shown.stdout
    assert re.search(r"^     asked:    \S.*\n(.*\n)*?     answered: \S", shown.stdout, re.MULTILINE)
    assert re.search(r"^   Of the rise of \d\.\d\d, .*\bthe model makes \d\.\d\d \(", shown.stdout, re.MULTILINE)
    assert re.search(r"^   difference +−1\.\d+ +−\S+ \[−\S+, −\S+\]", shown.stdout, re.MULTILINE)
    for suite in SUITES:
        assert re.search(
            rf"^   {suite} +\w.* [−\d]\S* \[\S+, \S+\] +(in|out)side +\d+ of \d+$", shown.stdout, re.MULTILINE
        )
    assert re.search(r"^   winobias +male_female_difference gender +30\.0 ", shown.stdout, re.MULTILINE)
    recovered = re.search(r"(\d+) of (\d+) planted values lie inside", shown.stdout)
    assert recovered is not None
    assert int(recovered[1]) >= 0.8 * int(recovered[2]) > 0.8 * 400
    assert re.search(r"http://127\.0\.0\.1:\d+/console#key=[\w-]{22}$", shown.stdout, re.MULTILINE)
    assert "audited" in shown.stdout
    assert "\x1b" not in shown.stdout + shown.stderr
    assert "Traceback" not in shown.stdout + shown.stderr


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_a_killed_demo_leaves_nothing_running() -> None:
    """kill -9 of the demo ends simulator, serve, gateway and auditor too."""
    async with command("demo") as running:
        await running.line("Gateway and auditor are up")
        started = [pid for pid in tree(running.process.pid) if pid != running.process.pid]
        assert len(started) >= 4
        running.process.kill()
        await eventually(lambda: not any(map(is_alive, started)), within_seconds=90)
