"""vLLM's own router between the gateway and two servers: relayed, audited, and told apart by fingerprint."""

import asyncio
import json
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integration.test_ingest import ask
from tests.support.integration.serving import serving
from tests.support.processes import free_port, running
from tests.support.simulated import running_simulator
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

SETTINGS = """
[sampling]
rate = 1.0
[server]
auditor_metrics_port = 0
[auditors.embedding]
enabled = false
[auditors.judge]
model = "simulated"
"""
N_REQUESTS = 12


@contextmanager
def router(home: Path, *servers: str) -> Iterator[str]:
    """Base URL of a router that takes its servers in turn."""
    program = shutil.which("vllm-router", path=str(Path(sys.executable).parent))
    assert program is not None, "vllm-router is not installed: make venv"
    port, metrics = free_port(), free_port()
    argv = [program, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    argv += ["--policy", "round_robin", "--worker-urls", *servers]
    with running(argv, ready_url=f"http://127.0.0.1:{port}/health", log=home / "router.log"):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.skipif(sys.platform != "linux", reason="vllm-router has wheels for Linux only")
async def test_two_servers_behind_one_address(tmp_path: Path) -> None:
    """Each answer's server is known, and each has its number."""
    config = tmp_path / "biasgate.toml"
    async with running_simulator("default") as one, running_simulator("null") as other:
        with ExitStack() as stack:
            root = await asyncio.to_thread(stack.enter_context, router(tmp_path, one, other))  # it asks them first
            config.write_text(
                f'[store]\nurl = "sqlite:///{tmp_path / "biasgate.db"}"\n'
                f'[[upstreams]]\nname = "router"\nbase_url = "{root}"\n' + SETTINGS
            )
            async with serving("serve", "--config", str(config)) as found:
                numbers = range(N_REQUESTS)
                said = [await ask(found.root, number, stream=number % 3 == 1, model="simulated") for number in numbers]
                everything = {"judge": N_REQUESTS, "refusal": N_REQUESTS}
                await eventually(lambda: audited_in(tmp_path) == everything, within_seconds=90)
                async with httpx.AsyncClient(base_url=found.root, trust_env=False, timeout=30) as http:
                    estimates = (await http.get("/live/estimates?auditor=judge")).json()
                    stream = next(one["stream"] for one in estimates if one["metric"] == "favoritism")
                    replicas = (await http.get(f"/live/streams/{stream}/replicas")).json()

    assert all(said)
    names = {f"biasgate-simulator-0.1.0-{profile}" for profile in ("default", "null")}
    servers = fingerprints_in(tmp_path)  # a question of the auditor between two requests can shift the turns
    assert servers.keys() == names
    assert (servers.total(), min(servers.values()) > 1) == (N_REQUESTS, True)
    assert {one["system_fingerprint"] for one in replicas} == names


def audited_in(directory: Path) -> Counter[str]:
    with sqlite3.connect(directory / "biasgate.db") as connection:
        rows = connection.execute("SELECT auditor, count(*) FROM exchange_audits GROUP BY auditor").fetchall()
    return Counter(dict(rows))


def fingerprints_in(directory: Path) -> Counter[str]:
    """Exchanges by the server that answered them, as they stand in the file; whose answer names it as well."""
    with sqlite3.connect(directory / "biasgate.db") as connection:
        rows = connection.execute("SELECT system_fingerprint, response_body FROM exchanges").fetchall()
    assert all(json.loads(body)["system_fingerprint"] == name for name, body in rows)
    return Counter(name for name, _ in rows)
