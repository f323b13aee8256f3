"""Keeps child processes running, `biasgate` commands in process groups of their own, and stops them in stages."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import structlog

USAGE_ERROR = 2
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""A child that lived this long is restarted without a history."""
STOP_NOTICE_SECONDS = 2.0
"""A signal that goes to all processes may reach a child this long before it reaches the parent."""
HURRIED_GRACE_SECONDS = 10.0
"""Asked twice, a child is given this long to say what it leaves unfinished."""

_ASKED_TO_END = frozenset({0, -signal.SIGTERM, -signal.SIGINT})

log = structlog.get_logger(__name__)


class Child(NamedTuple):
    """One process to keep running."""

    name: str
    command: Sequence[str]
    stage: int
    """Lower stages stop first."""
    grace_seconds: float
    """Seconds that SIGTERM is given before SIGKILL."""
    pass_fds: tuple[int, ...] = ()
    environ: Callable[[], Mapping[str, str]] | None = None
    """Its environment, asked for at each start; None: the supervisor's."""
    is_needed_to_the_end: bool = True
    """Started again although the end has come, as long as its stage lasts: processes of earlier stages need it."""


class Supervisor:
    """Runs children until `stop`. `environ`: for those without their own. `line`: their first input; see `tell`."""

    def __init__(self, children: Sequence[Child], environ: Mapping[str, str], line: bytes = b"") -> None:
        self._children = children
        self._environ = dict(environ)
        self._line = line
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._replaced: set[str] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._end_is_near = asyncio.Event()
        self._over = {child.stage: asyncio.Event() for child in children}
        """Set once a stage is being ended; until then what dies in it is started again, while others drain too."""
        self._hurrying = asyncio.Event()
        self._exit_code = 0

    def stop(self) -> None:
        """Asks for the orderly end; asked again, every child is asked again and soon killed; a third time, at once."""
        if self._hurrying.is_set():
            self._signal_all(signal.SIGKILL)
        elif self._stopping.is_set():
            self._hurrying.set()
            self._signal_all(signal.SIGTERM)
        self._stopping.set()
        self._end_is_near.set()

    def expect_the_end(self) -> None:
        """Note that `stop` follows: a child that someone else ends meanwhile is started again without a word."""
        self._end_is_near.set()

    def tell(self, line: bytes, *, replacing: Container[str] = ()) -> None:
        """Hand a line to every child, now and at later starts; those named in `replacing` are started again instead."""
        self._line = line
        for child in self._children:
            process = self._running.get(child.name)
            if process is None:
                continue
            if child.name in replacing:
                self._replaced.add(child.name)
                ending = asyncio.create_task(self._end(child))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
            else:
                _write_line(process, line)

    async def run(self) -> int:
        """Run until stopped. Returns 0, or 2 when a child refused its configuration at its first start."""
        keepers = [asyncio.create_task(self._keep(child)) for child in self._children]
        await self._stopping.wait()
        for stage in sorted(self._over):
            self._over[stage].set()
            await asyncio.gather(*(self._end(child) for child in self._children if child.stage == stage))
        await asyncio.gather(*keepers, *self._endings)
        return self._exit_code

    async def _keep(self, child: Child) -> None:
        backoff, is_first = FIRST_BACKOFF_SECONDS, True
        over = self._over[child.stage]
        while not over.is_set():
            started = time.monotonic()
            code = await self._run_once(child)
            if over.is_set():
                return
            if code == USAGE_ERROR and is_first:
                self._exit_code = USAGE_ERROR
                self._stopping.set()
                self._end_is_near.set()
                return
            if child.name in self._replaced:
                self._replaced.discard(child.name)
                continue
            if code in _ASKED_TO_END and await self._learns_of_the_end():
                if over.is_set() or not child.is_needed_to_the_end:
                    return
                continue
            if time.monotonic() - started > STEADY_SECONDS:
                backoff = FIRST_BACKOFF_SECONDS
            log.error(
                "a process died and is started again", process=child.name, ended=_ending(code), in_seconds=backoff
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), backoff)
            backoff, is_first = min(2 * backoff, LONGEST_BACKOFF_SECONDS), False

    async def _learns_of_the_end(self) -> bool:
        """Return whether this process is to end too, as a service manager signals all processes at once."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._end_is_near.wait(), STOP_NOTICE_SECONDS)
        await asyncio.sleep(0)  # `run` sets what is over
        return self._end_is_near.is_set()

    async def _run_once(self, child: Child) -> int:
        process = await asyncio.create_subprocess_exec(
            *child.command,
            stdin=asyncio.subprocess.PIPE,
            env=self._environ if child.environ is None else dict(child.environ()),
            pass_fds=child.pass_fds,
            preexec_fn=os.setpgrp,  # Ctrl-C is for the parent alone; see `sampling.writer.process.lower_priority` too
        )
        self._running[child.name] = process
        _write_line(process, self._line)
        if self._over[child.stage].is_set():  # asked to stop while the process was being made
            process.terminate()
        try:
            return await process.wait()
        finally:
            del self._running[child.name]

    async def _end(self, child: Child) -> None:
        process = self._running.get(child.name)
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        ended = asyncio.create_task(process.wait())
        hurried = asyncio.create_task(self._hurrying.wait())
        await asyncio.wait({ended, hurried}, timeout=child.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and self._hurrying.is_set():
            await asyncio.wait({ended}, timeout=HURRIED_GRACE_SECONDS)
        hurried.cancel()
        if not ended.done():
            log.error("a process did not stop in time and is killed", process=child.name)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await ended

    def _signal_all(self, number: signal.Signals) -> None:
        for process in list(self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


def _write_line(process: asyncio.subprocess.Process, line: bytes) -> None:
    """Never waits: what the pipe does not take at once is written by the loop as the child reads."""
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.write(line)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
