"""Waits for the running system, and prints what both demos end with."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from gateway.demo.system import System, fetch
from gateway.errors import GatewayError

PATIENCE_SECONDS = 60.0


def settle(system: System) -> None:
    """Waits until every sampled exchange has been audited, failed or expired."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _waiting(system) and time.monotonic() < deadline:
        time.sleep(0.3)


def _waiting(system: System) -> int:
    return int(fetch(system, "/live/ledger")["outcomes"].get("queued", 0))


def count_over(system: System, runs: list[str]) -> int:
    """Count the runs that are over."""
    audits: list[dict[str, Any]] = fetch(system, "/audits")
    return sum(audit["id"] in runs and audit["status"] not in ("queued", "running") for audit in audits)


def await_run(
    system: System, run_id: str, show: Callable[[], None], patience: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """Wait until a suite run is over; returns it. Raises GatewayError after so many seconds."""
    deadline = time.monotonic() + patience
    while True:
        audit: dict[str, Any] = fetch(system, f"/audits/{run_id}")
        if audit["status"] not in ("queued", "running"):
            return audit
        if time.monotonic() > deadline:
            raise GatewayError(f"the suite run {run_id} was not done within {patience:.0f} s: {audit}")
        show()
        time.sleep(0.3)


def print_ledger(system: System, number: int) -> None:
    """Print the outcomes of all requests."""
    outcomes = fetch(system, "/live/ledger")["outcomes"]
    print(f"{number}. The ledger: every request is in exactly one outcome.")
    print("   " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())) + "\n")


def print_addresses(system: System, *, keep: bool) -> None:
    """Print the addresses that the system has."""
    print(f"Console (unlocked)  {system.unlocked_console}")
    print(f"Metrics             {system.gateway}/metrics and {system.auditor}/metrics")
    print(f"API description     {system.gateway}/schema/openapi.json (with the key after #key= as bearer token)")
    print("Your own model      biasgate try --upstream URL")
    print("" if keep else "These addresses end with the demo: make demo KEEP=1 (biasgate demo --keep) leaves them.\n")


def wait_for_interrupt() -> None:
    """Leave the system running until Ctrl-C."""
    print("Left running (KEEP=1). Ctrl-C stops it.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


def indent(text: str) -> str:
    return "\n".join("   " + line for line in text.splitlines())
