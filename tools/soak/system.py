"""The system under soak: a real `biasgate serve` with two keys' worth of everything that the accounts look at."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from tests.support.integration.serving import children_of
from tests.support.processes import BIASGATE, free_port, running
from tools.soak.front import Front
from tools.soak.traffic import KEY, KEY_VARIABLE, MAX_BODY_BYTES

SECRET_VARIABLE, SECRET = "SOAK_SECRET", "secret of the soak's sampling"
RATE = 0.1
MAX_COPY_BYTES = 65536
LIMIT_SECONDS = 20.0
"""First-byte and idle timeout of each upstream: beyond what a busy machine needs for an answer."""
WORKERS = 2
START_SECONDS = 90.0


class System(msgspec.Struct, frozen=True):
    """Where it answers, and its processes by name."""

    gateway: str
    auditor: str
    port: int
    pids: dict[str, int]


@asynccontextmanager
async def running_system(fronts: list[Front], home: Path) -> AsyncIterator[System]:
    """Gateway workers and auditor with these upstreams, ready. Raises RuntimeError or TimeoutError when not."""
    port, auditor_port = free_port(), free_port()
    config = home / "soak.toml"
    config.write_text(_config(fronts, home, port, auditor_port))
    gateway, auditor = (f"http://127.0.0.1:{one}" for one in (port, auditor_port))
    serving = running(
        [*BIASGATE, "serve", "--config", str(config)],
        ready_url=f"{gateway}/readyz",
        log=home / "gateway.log",
        environ={KEY_VARIABLE: KEY, SECRET_VARIABLE: SECRET, "BIASGATE_HOME": str(home / "cache")},
        within_seconds=START_SECONDS,
    )
    # Starting and stopping block; the fronts must go on answering health checks meanwhile.
    process = await asyncio.to_thread(serving.__enter__)
    try:
        await _until_ready(auditor)
        children = children_of(process.pid)
        pids = {f"{verb} {n}": pid for verb, child in children.items() for n, pid in enumerate(sorted(child), 1)}
        yield System(gateway, auditor, port, pids)
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)


def _config(fronts: list[Front], home: Path, port: int, auditor_port: int) -> str:
    upstreams = "".join(
        f'[[upstreams]]\nname = "up{index}"\nbase_url = "{front.base_url}"\n'
        f"timeouts = {{first_byte = {LIMIT_SECONDS}, idle = {LIMIT_SECONDS}}}\n"
        for index, front in enumerate(fronts)
    )
    return (
        f"[server]\nport = {port}\nworkers = {WORKERS}\nauditor_metrics_port = {auditor_port}\n"
        f"max_body_bytes = {MAX_BODY_BYTES}\ndrain_seconds = 10\n"
        f'[store]\nurl = "sqlite:///{home}/soak.db"\n{upstreams}'
        f'[[keys]]\nname = "soak"\nkey_env = "{KEY_VARIABLE}"\n'
        f'[sampling]\nsecret_env = "{SECRET_VARIABLE}"\nrate = {RATE}\nmax_copy_bytes = {MAX_COPY_BYTES}\n'
        "[telemetry]\naccess_log = true\n"
        "[auditors.judge]\nmax_concurrency = 8\ntimeout_seconds = 30\nmax_tokens = 64\n"
        "[auditors.embedding]\nenabled = false\n"
    )


def exchange_ids(log: Path) -> dict[str, str]:
    """Request id to exchange id, from the access log among the gateway's lines."""
    found = {}
    with log.open("rb") as lines:
        for line in lines:
            if b'"request ended"' in line:
                with contextlib.suppress(msgspec.DecodeError):
                    entry = msgspec.json.decode(line)
                    found[entry["request_id"]] = entry["exchange_id"]
    return found


async def _until_ready(url: str) -> None:
    async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as http:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(f"{url}/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)
