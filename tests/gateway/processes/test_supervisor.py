import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gateway.children import supervisor as supervisor_module
from gateway.children.parent_pipe import line_of
from gateway.children.supervisor import Child, Supervisor
from gateway.config.schema import Config, ServerConfig

MARKS = "import sys, os, signal, time; log = open(sys.argv[1], 'a', buffering=1)\n"
OBEDIENT = MARKS + (
    "def end(*_):\n log.write(f'end {sys.argv[2]}\\n'); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, end)\nlog.write(f'start {sys.argv[2]} {os.getpid()}\\n')\ntime.sleep(60)\n"
)
STUBBORN = MARKS + (
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "log.write(f'start {sys.argv[2]} {os.getpid()}\\n')\ntime.sleep(60)\n"
)
RELUCTANT = MARKS + (
    "def asked(*_):\n log.write(f'asked {sys.argv[2]}\\n')\n asked.times += 1\n"
    " if asked.times == 2:\n  log.write(f'end {sys.argv[2]}\\n'); sys.exit(0)\n"
    "asked.times = 0\nsignal.signal(signal.SIGTERM, asked)\n"
    "log.write(f'start {sys.argv[2]}\\n')\nwhile True: time.sleep(60)\n"
)
ECHOING = MARKS + "while line := sys.stdin.readline(): log.write(f'{sys.argv[2]} {line}')\n"
REFUSING = "import sys; sys.exit(2)"
LIFELINED = (
    "import asyncio\nfrom gateway.children.parent_pipe import ParentPipe\n"
    "async def main():\n"
    " gone = asyncio.Event()\n line = ParentPipe()\n"
    " print(line.first_config().server.port, flush=True)\n"
    " line.watch(lambda config: print(config.server.port, flush=True), gone.set)\n await gone.wait()\n"
    "asyncio.run(main())\n"
)


def child(name: str, program: str, log: Path, *, stage: int = 0, grace_seconds: float = 5.0) -> Child:
    return Child(name, [sys.executable, "-c", program, str(log), name], stage, grace_seconds)


async def lines(log: Path, count: int) -> list[str]:
    """Waits until the children wrote that many lines."""
    async with asyncio.timeout(20):
        while len(written(log)) < count:  # noqa: ASYNC110 - other processes write it
            await asyncio.sleep(0.02)
    return written(log)


def written(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def test_stages_stop_in_order(tmp_path: Path) -> None:
    """The first stage has ended before the second is asked to."""
    log = tmp_path / "log"
    children = [child("late", OBEDIENT, log, stage=1), child("early", OBEDIENT, log, stage=0)]
    supervisor = Supervisor(children, os.environ)
    running = asyncio.create_task(supervisor.run())
    await lines(log, 2)
    supervisor.stop()

    assert await running == 0
    assert written(log)[2:] == ["end early", "end late"]


@pytest.mark.parametrize("parent_hears", ["first", "at once", "last"])
async def test_a_signal_to_all_is_no_death(
    parent_hears: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever hears of the end first: nobody is said to have died; only what others still need is started again."""
    log = tmp_path / "log"
    children = [
        child("reluctant", RELUCTANT, log),
        child("writer", OBEDIENT, log, stage=1),
        child("auditor", OBEDIENT, log, stage=1)._replace(is_needed_to_the_end=False),
    ]
    supervisor = Supervisor(children, os.environ)
    running = asyncio.create_task(supervisor.run())
    pids = [int(line.split()[2]) for line in await lines(log, 3) if "reluctant" not in line]
    steps: list[Callable[[], object]] = [supervisor.stop, *[partial(os.kill, pid, signal.SIGTERM) for pid in pids]]
    for step in steps if parent_hears == "first" else reversed(steps):
        step()
        await asyncio.sleep(0.0 if parent_hears == "at once" else 0.1)
    assert [line for line in (await lines(log, 7)) if "start" in line][3].startswith("start writer")
    supervisor.stop()  # the reluctant one ends when it is asked twice

    assert await asyncio.wait_for(running, 20) == 0
    ends = Counter(line for line in written(log) if "end" in line)
    assert ends.pop("end writer") in (2, 3)  # 3 where a slow machine lets a writer hear twice
    assert ends == {"end auditor": 1, "end reluctant": 1}
    assert "died" not in "".join(capfd.readouterr())


async def test_a_child_that_somebody_ends_is_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word to the parent it is missed, and said to be."""
    monkeypatch.setattr(supervisor_module, "STOP_NOTICE_SECONDS", 0.1)
    log = tmp_path / "log"
    supervisor = Supervisor([child("one", OBEDIENT, log)], os.environ)
    running = asyncio.create_task(supervisor.run())
    os.kill(int((await lines(log, 1))[0].split()[2]), signal.SIGTERM)
    await lines(log, 3)
    supervisor.stop()

    assert await running == 0
    assert "".join(capfd.readouterr()).count("a process died and is started again") == 1


async def test_refused_configuration_ends_everything(tmp_path: Path) -> None:
    """A child that refuses its configuration at its first start is not started for ever: all stop with its code."""
    log = tmp_path / "log"
    supervisor = Supervisor([child("good", OBEDIENT, log), child("bad", REFUSING, log)], os.environ)

    assert await asyncio.wait_for(supervisor.run(), 20) == 2


@pytest.mark.parametrize(("grace_seconds", "n_stops"), [(0.2, 1), (50.0, 3)])
async def test_stubborn_child_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace_seconds: float, n_stops: int
) -> None:
    """A child that ignores SIGTERM is killed once its grace is over, or at once by the third stop."""
    monkeypatch.setattr(supervisor_module, "HURRIED_GRACE_SECONDS", 50)
    log = tmp_path / "log"
    supervisor = Supervisor([child("stubborn", STUBBORN, log, grace_seconds=grace_seconds)], os.environ)
    running = asyncio.create_task(supervisor.run())
    pid = int((await lines(log, 1))[0].split()[2])
    for _ in range(n_stops):
        supervisor.stop()
        await asyncio.sleep(0)

    assert await asyncio.wait_for(running, 20) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_child_hears_configurations_and_its_parents_death() -> None:
    """The first line is waited for, later ones are called back, two at once too; then the closed pipe is noticed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIFELINED, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for ports in ([1], [2, 3]):
        process.stdin.write(b"".join(line_of(Config(server=ServerConfig(port=port))) for port in ports))
        assert [await process.stdout.readline() for _ in ports] == [b"%d\n" % port for port in ports]
    process.stdin.close()

    assert await asyncio.wait_for(process.wait(), 10) == 0


async def test_told_line_reaches_the_running_and_replaces_those_named(tmp_path: Path) -> None:
    """A line goes to every child at once, and first of all to one that is ended and started again for it."""
    log = tmp_path / "log"
    children = [child("heir", ECHOING, log), child("listener", ECHOING, log)]
    supervisor = Supervisor(children, os.environ, b"one\n")
    running = asyncio.create_task(supervisor.run())
    assert sorted(await lines(log, 2)) == ["heir one", "listener one"]
    supervisor.tell(b"two\n", replacing={"heir"})
    heard = await lines(log, 4)
    supervisor.stop()

    assert await asyncio.wait_for(running, 20) == 0
    assert sorted(heard[2:]) == ["heir two", "listener two"]
