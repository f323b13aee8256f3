"""The processes of a rehearsal: started where they belong, killed as a whole, started again."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg

from tests.support.integration.serving import children_of
from tools.rehearsal.places import Place

READY_SECONDS = 120.0
ENDED_SECONDS = 120.0
ROOT = Path(__file__).parents[2]
POSTGRES_PORT, CABLE_PORT = 5433, 5434


class Member:
    """One command and its children."""

    def __init__(
        self, name: str, place: Place, argv: Sequence[str], *, ready_url: str, home: Path, environ: Mapping[str, str]
    ) -> None:
        self.name = name
        self.tree = ROOT
        """The checkout whose code it runs."""
        self.process: subprocess.Popen[bytes] | None = None
        self._argv = [*place.prefix, *argv]
        self._ready_url = ready_url
        self._log = home / f"{name}.log"
        self._environ = environ

    def start(self) -> None:
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._argv,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environ},
                cwd=self.tree,
                start_new_session=True,
            )

    async def ready(self) -> None:
        """Raises RuntimeError when it ends, or is not ready in time."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            if await asyncio.to_thread(_answers, self._ready_url):
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{self.name} is not ready: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9 of all its processes at once."""
        if self.process is not None:
            for pid in _session(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(10)

    def kill_parent(self) -> None:
        """kill -9 of the process that was started, and of none of its children."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def kill_child(self, name: str) -> None:
        """kill -9 of one of its children, a "gateway" (a worker) or the "writer"."""
        assert self.process is not None
        os.kill(children_of(self.process.pid)[name][0], signal.SIGKILL)

    async def stop(self) -> None:
        """As an operator stops it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self.process.wait, 40.0)
        self.kill()


def biasgate(name: str, place: Place, words: Sequence[str], config: Path, port: int, home: Path) -> Member:
    """A gateway or an auditor, whose readiness is asked at this port."""
    argv = [sys.executable, "-m", "gateway", *words, "--config", str(config)]
    path = "livez" if words[0] == "auditor" else "readyz"
    url = f"http://{place.address}:{port}/{path}"
    return Member(name, place, argv, ready_url=url, home=home, environ={"REHEARSAL_SECRET": "s" * 32})


def servers() -> list[Path]:
    """Programs of PostgreSQL's server on this machine, where Debian has them."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


class Postgres:
    """A server of its own, so that it can be killed; as the user postgres, since it refuses root."""

    def __init__(self, place: Place, home: Path) -> None:
        self.url = self.url_at(place.address, POSTGRES_PORT)
        self._place = place
        self._data = home / "postgres"
        self._server: subprocess.Popen[bytes] | None = None
        self._bin = servers()[-1].parent
        self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []

    @staticmethod
    def url_at(host: str, port: int) -> str:
        """As clients name it that reach it there."""
        return f"postgresql://postgres@{host}:{port}/postgres"

    @property
    def address(self) -> str:
        return self._place.address

    def make(self) -> None:
        self._data.mkdir()
        if self._as:
            shutil.chown(self._data, "postgres", "postgres")
            for parent in [*self._data.parents][:-2]:
                parent.chmod(parent.stat().st_mode | 0o011)
        words = [*self._as, str(self._bin / "initdb"), "-D", str(self._data), "-A", "trust", "-U", "postgres"]
        subprocess.run(words, check=True, capture_output=True, cwd="/")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 0.0.0.0/0 trust\n")

    def start(self) -> None:
        settings = {"listen_addresses": self._place.address, "port": POSTGRES_PORT, "max_connections": 300}
        settings |= {"unix_socket_directories": "", "tcp_keepalives_idle": 5, "tcp_keepalives_interval": 2}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._server = subprocess.Popen(
            [*self._place.prefix, *self._as, str(self._bin / "postgres"), "-D", str(self._data), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    async def ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                await (await psycopg.AsyncConnection.connect(self.url, connect_timeout=2)).close()
                return
            await asyncio.sleep(0.1)
        raise RuntimeError("PostgreSQL is not ready")

    def kill(self) -> None:
        """kill -9 of the server and every session: it has to recover from its log."""
        if self._server is not None:
            for pid in [self._server.pid, *_descendants(self._server.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._server.wait(20)
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    async def restart(self) -> None:
        """As an operator does: sessions are ended, it writes all it has. Raises RuntimeError when it does not end."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            try:
                await asyncio.to_thread(self._server.wait, ENDED_SECONDS)
            except subprocess.TimeoutExpired as exc:
                left = [*map(_doing, _descendants(self._server.pid))]
                raise RuntimeError(f"PostgreSQL has not ended after {ENDED_SECONDS:g} s: {left}") from exc
        self.start()


def _session(pid: int) -> Iterator[int]:
    """Every process of a session, by its leader: children have process groups of their own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(folder.name)) == pid:
                yield int(folder.name)


def distance(place: Place, postgres: Postgres, milliseconds: float, home: Path) -> Member:
    """A long way to the server, from an address of its own (tools.rehearsal.distance)."""
    argv = [sys.executable, "-m", "tools.rehearsal.distance", place.address, str(CABLE_PORT)]
    argv += [postgres.address, str(POSTGRES_PORT), str(milliseconds)]
    return Member("cable", place, argv, ready_url="", home=home, environ={})


def _descendants(pid: int) -> Iterator[int]:
    """Those of a process that ends meanwhile are left out."""
    children: list[str] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            children += file.read_text().split()
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _doing(pid: int) -> str:
    """What a process calls itself, and what it waits for in the kernel."""
    with contextlib.suppress(OSError):
        folder = Path(f"/proc/{pid}")
        return f"{(folder / 'cmdline').read_text().rstrip(chr(0))}: {(folder / 'wchan').read_text()}"
    return "gone"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError):
        return False
