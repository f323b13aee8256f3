"""A gateway and the upstreams behind it, each a process of its own, for measurements of the pool and of ends."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import BIASGATE, free_port, running
from tools.bench.upstream import MODEL


class Behind(NamedTuple):
    """One upstream of the gateway's configuration."""

    name: str
    url: str
    model: str = MODEL
    weight: float = 1.0
    first_byte_seconds: float = 300.0


class Server(NamedTuple):
    """A running upstream."""

    url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def gateway_in_front(behind: Sequence[Behind], home: Path) -> Iterator[int]:
    """Port of a gateway process; its log is left in home."""
    port = free_port()
    config = home / f"biasgate-{port}.toml"
    listed = "".join(
        f'[[upstreams]]\nname = "{one.name}"\nbase_url = "{one.url}"\nmodels = ["{one.model}"]\n'
        f"weight = {one.weight}\ntimeouts = {{first_byte = {one.first_byte_seconds}}}\n"
        for one in behind
    )
    config.write_text(
        f'[server]\nport = {port}\n[store]\nurl = "sqlite:///{home}/{port}.db"\n[sampling]\nrate = 0.0\n{listed}'
    )
    argv = [*BIASGATE, "gateway", "--config", str(config)]
    ready = f"http://127.0.0.1:{port}/readyz"
    with running(argv, ready_url=ready, log=home / f"gateway-{port}.log", within_seconds=60):
        yield port


@contextlib.contextmanager
def kept_alive(home: Path, keep_alive_seconds: int = 5) -> Iterator[Server]:
    """A uvicorn with this keep-alive time."""
    port = free_port()
    argv = [sys.executable, "-m", "tools.bench.kept_alive", str(port), str(keep_alive_seconds)]
    url = f"http://127.0.0.1:{port}"
    with running(argv, ready_url=f"{url}/health", log=home / f"upstream-{port}.log") as process:
        yield Server(url, process)
