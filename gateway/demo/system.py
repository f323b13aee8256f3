"""Starts processes of `demo` and `try` (model, gateway, auditor) with a user's commands, and stops them in order."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from gateway.errors import GatewayError

START_SECONDS = 60.0
STOP_SECONDS = 30.0
PATIENCE_SECONDS = 60.0
CONFIG_NAME, LOG_NAME = "biasgate.toml", "biasgate.log"
ADMIN_KEY_VARIABLE = "DEMO_ADMIN_KEY"
"""Variable in the environment of our own gateway; a command line could be read by every user of the machine."""

CONFIG = """\
[server]
port = {gateway_port}
auditor_metrics_port = {auditor_port}
drain_seconds = 5
admin_key_env = "{admin_key_variable}"

[store]
url = {store_url}

[[upstreams]]
name = "{upstream}"
base_url = {upstream_url}
{upstream_settings}
[sampling]
rate = 1.0
"""


class Upstream(NamedTuple):
    """The server of the model behind the gateway, and what the gateway is to do with its traffic."""

    name: str
    command: Sequence[str]
    """Arguments of Python; `--port` and `--with-parent` are added."""
    auditors: str
    """Sections of the configuration."""
    settings: str = ""
    """Further lines of its section [[upstreams]]."""


class System(msgspec.Struct, frozen=True):
    """Addresses of the demo's servers, and the admin key."""

    upstream: str
    gateway: str
    auditor: str
    admin_key: str

    @property
    def unlocked_console(self) -> str:
        """The console with the key in the fragment, which a browser sends to no server."""
        return f"{self.gateway}/console#key={self.admin_key}"

    @property
    def as_admin(self) -> dict[str, str]:
        """Headers of a request to the control plane."""
        return {"authorization": f"Bearer {self.admin_key}"}

    def drift(self) -> None:
        """Plants the profile's change, now."""
        httpx.post(f"{self.upstream}/simulator/drift", json={"on": True}, timeout=10).raise_for_status()

    def fetch(self, path: str) -> Any:
        """JSON of a route of the gateway's control plane."""
        return msgspec.json.decode(self.fetch_bytes(path))

    def fetch_bytes(self, path: str) -> bytes:
        """Body of a route of the gateway's control plane."""
        response = httpx.get(f"{self.gateway}{path}", headers=self.as_admin, timeout=30)
        response.raise_for_status()
        return response.content

    def start_audits(self, suites: Sequence[str] | str = "all", **options: str | int) -> list[str]:
        """Starts suites on their embedded items, with further options of a run; returns the runs' ids."""
        body = {"suites": suites, "data": "embedded", **options}
        response = httpx.post(f"{self.gateway}/audits", json=body, headers=self.as_admin, timeout=30)
        response.raise_for_status()
        return list(response.json()["ids"].values())

    def settle(self) -> None:
        """Waits until every sampled exchange has been audited, failed or expired."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.fetch("/live/ledger")["outcomes"].get("queued", 0) and time.monotonic() < deadline:
            time.sleep(0.3)

    def count_over(self, runs: list[str]) -> int:
        audits: list[dict[str, Any]] = self.fetch("/audits")
        return sum(audit["id"] in runs and audit["status"] not in ("queued", "running") for audit in audits)

    def await_run(self, run_id: str, show: Callable[[], None], patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until a suite run is over; returns it. Raises GatewayError after so many seconds."""
        deadline = time.monotonic() + patience
        while True:
            audit: dict[str, Any] = self.fetch(f"/audits/{run_id}")
            if audit["status"] not in ("queued", "running"):
                return audit
            if time.monotonic() > deadline:
                raise GatewayError(f"the suite run {run_id} was not done within {patience:.0f} s: {audit}")
            show()
            time.sleep(0.3)

    def print_ledger(self, number: int) -> None:
        outcomes = self.fetch("/live/ledger")["outcomes"]
        print(f"{number}. The ledger: every request is in exactly one outcome.")
        print("   " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())) + "\n")

    def print_addresses(self, *, keep: bool) -> None:
        print(f"Console (unlocked)  {self.unlocked_console}")
        print(f"Metrics             {self.gateway}/metrics and {self.auditor}/metrics")
        print(f"API description     {self.gateway}/schema/openapi.json (with the key after #key= as bearer token)")
        print("Your own model      biasgate try --upstream URL")
        ending = "These addresses end with the demo: make demo KEEP=1 (biasgate demo --keep) leaves them.\n"
        print("" if keep else ending)


@contextmanager
def running(directory: Path, upstream: Upstream, gateway_port: int = 0) -> Iterator[System]:
    """Model, gateway and auditor; logs go to files in `directory`. Raises GatewayError when one does not start."""
    [port] = _free_ports(1)
    url, log = f"http://127.0.0.1:{port}", directory / "model.log"
    with _process([*upstream.command, "--port", str(port)], log) as model:
        _await_answer(f"{url}/health", model, log)
        with serving(directory, upstream, url, gateway_port) as system:
            yield system


@contextmanager
def serving(directory: Path, upstream: Upstream, upstream_url: str, gateway_port: int = 0) -> Iterator[System]:
    """Run gateway and auditor before a model's server; port 0 is a free one. Raises GatewayError as `running`."""
    free_port, auditor_port = _free_ports(2)
    gateway_url, auditor_url = (f"http://127.0.0.1:{port}" for port in (gateway_port or free_port, auditor_port))
    system = System(upstream_url, gateway_url, auditor_url, admin_key=secrets.token_urlsafe(16))
    config = directory / CONFIG_NAME
    config.write_text(
        CONFIG.format(
            gateway_port=gateway_port or free_port,
            auditor_port=auditor_port,
            admin_key_variable=ADMIN_KEY_VARIABLE,
            store_url=json.dumps(f"sqlite:///{directory.absolute() / 'biasgate.db'}"),
            upstream=upstream.name,
            upstream_url=json.dumps(upstream_url),
            upstream_settings=upstream.settings,
        )
        + upstream.auditors,
        encoding="utf-8",
    )
    log = directory / LOG_NAME
    command = ["-m", "gateway", "serve", "--config", str(config)]
    with _process(command, log, {ADMIN_KEY_VARIABLE: system.admin_key}) as serve:
        _await_answer(f"{system.gateway}/readyz", serve, log)
        _await_answer(f"{system.auditor}/readyz", serve, log)
        # The auditor publishes the suites that it runs once it is up.
        _await_answer(f"{system.gateway}/suites", serve, log, system.as_admin)
        yield system


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@contextmanager
def _process(arguments: list[str], log: Path, environ: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[bytes]]:
    """`environ` is added to what is inherited, of which no setting of another biasgate is kept."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BIASGATE_")}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command, arguments from this module
            [sys.executable, *arguments, "--with-parent"],
            stdin=subprocess.PIPE,  # its other end closes with this process, however that ends
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, **environ},
            start_new_session=True,  # Ctrl-C reaches this process alone, which stops its own in order
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path, headers: Mapping[str, str] = {}) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise GatewayError(f"no start: {url} ended with code {process.returncode}: {_last(log)}")
        try:
            if httpx.get(url, headers=dict(headers), timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise GatewayError(f"no start: {url} did not answer within {START_SECONDS:.0f} s: {_last(log)}")


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else f"{log} is empty"


def wait_for_interrupt() -> None:
    print("Left running (KEEP=1). Ctrl-C stops it.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


def indent(text: str) -> str:
    return "\n".join("   " + line for line in text.splitlines())
