"""`biasgate` commands as real processes: started with a configuration, waited for, stopped by their id."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.processes import BIASGATE

READY_SECONDS = 120.0
"""The machine may be busy with other tests."""


@dataclass
class Command:
    """A running command and what it has written so far."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    root: str = ""
    """Base URL of the gateway, from its ready line."""

    def http(self, **headers: str) -> httpx.AsyncClient:
        """Return a client of the gateway."""
        return httpx.AsyncClient(base_url=self.root, verify=False, trust_env=False, timeout=30, headers=headers)

    async def exit_code(self) -> int:
        async with asyncio.timeout(READY_SECONDS):
            return await self.process.wait()

    async def line(self, pattern: str, *, count: int = 1) -> str:
        """Waits until so many lines match; returns the last of them."""
        async with asyncio.timeout(READY_SECONDS):
            while len(found := self._matching(pattern)) < count:  # noqa: ASYNC110 - another process writes
                await asyncio.sleep(0.02)
        return found[-1]

    def _matching(self, pattern: str) -> list[str]:
        return [line for line in self.lines if re.search(pattern, line)]

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())


def write_config(directory: Path, upstream: str, extra: str = "") -> Path:
    """A configuration file with one upstream and a store in the same directory."""
    path = directory / "biasgate.toml"
    path.write_text(
        f'[store]\nurl = "sqlite:///{directory / "biasgate.db"}"\n'
        f'[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\nmodels = ["m"]\n'
        "[server]\nauditor_metrics_port = 0\ndrain_seconds = 10\n" + extra
    )
    return path


def command(
    *arguments: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AbstractAsyncContextManager[Command]:
    """Runs `biasgate ARGUMENTS` until the block ends; not yet ready when the block begins."""
    return process_of(*BIASGATE, *arguments, environ=environ, cwd=cwd)


@asynccontextmanager
async def process_of(
    *words: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[Command]:
    """Runs a program until the block ends, then SIGTERM, and SIGKILL 20 s later."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environ or {})},
        cwd=cwd,
    )
    running = Command(process)
    reading = asyncio.create_task(running.read())
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
        await reading


@asynccontextmanager
async def serving(*arguments: str, environ: Mapping[str, str] | None = None) -> AsyncIterator[Command]:
    """As `command`, once the gateway says that it is ready."""
    async with command(*arguments, "--port", "0", environ=environ) as running:
        ready = await running.line("biasgate is ready")
        running.root = ready.split("OpenAI base URL ")[1].split("/v1,")[0]
        yield running


async def closed(port: int) -> None:
    """Wait until nothing takes connections at this port."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.05)


def children_of(pid: int) -> dict[str, list[int]]:
    """Process ids of a parent's direct children, by the biasgate verb they run; "writer" is who stores copies."""
    found: dict[str, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n" in status.read_text():
                words = (status.parent / "cmdline").read_bytes().decode().split("\0")
                if len(words) < 4:  # dead, and not yet waited for
                    continue
                found.setdefault("writer" if "--writer-fd" in words else words[3], []).append(int(status.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
