"""The demo's story: traffic, live audits, every suite on demand, a planted drift and its alarm."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.plan import RunOptions, prepare
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.profile import load
from gateway.demo import tables, traffic
from gateway.demo.system import (
    AVERAGE_RUN_LENGTH,
    MODEL,
    PROFILE,
    REFERENCE_AUDITS,
    System,
    drift,
    fetch,
    running,
    start_audits,
)
from gateway.errors import GatewayError

QUIET_AUDITS = REFERENCE_AUDITS + 60
"""Reference first, then some audits in which nothing may alarm."""
EMBEDDING_RATE = 0.1
PATIENCE_SECONDS = 60.0
DRIFTING = ("judge", "favoritism", "gender", "man")


def run(*, seed: int, keep: bool) -> int:
    """Plays the story once; returns 0, or 1 when an audit or the alarm did not come."""
    with (
        tempfile.TemporaryDirectory(prefix="biasgate-demo-") as directory,
        running(Path(directory), seed=seed, embedding_rate=EMBEDDING_RATE) as system,
    ):
        print(f"biasgate demo: a simulated model with planted biases at {system.simulator}, nothing real is judged.")
        print(f"Gateway and auditor are up: base URL {system.gateway}/v1, console {system.gateway}/console\n")
        runs = start_audits(system)
        print(f"1. Live traffic with the official OpenAI client, before any change ({QUIET_AUDITS} audits):")
        answered = _traffic(system, lambda: _audits(system) >= QUIET_AUDITS)
        print(f"   {answered} requests answered. Live estimates:\n")
        _settle(system)
        print(_indented(tables.live_table(fetch(f"{system.gateway}/live/estimates"), load(PROFILE))))
        alarms = fetch(f"{system.gateway}/live/alarms")
        print(f"\n   Alarms so far: {len(alarms)} (nothing has changed yet, so there should be none).\n")
        is_well = _suites(system, runs) and not alarms
        is_well = _drift(system) and is_well
        _settle(system)
        _ledger(system)
        _addresses(system, keep=keep)
        if keep:
            _wait_for_interrupt()
    print("All of it came out as planted." if is_well else "NOT as planted: see above.")
    return 0 if is_well else 1


def _traffic(system: System, is_enough: Callable[[], bool]) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS

    def is_over() -> bool:
        return time.monotonic() > deadline or is_enough()

    return asyncio.run(traffic.send(system.gateway, MODEL, is_enough=is_over))


def _audits(system: System) -> int:
    """Audits of the stream that will drift."""
    stream = _stream(system)
    return stream["n"] if stream else 0


def _stream(system: System) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = fetch(f"{system.gateway}/live/estimates")
    return next((one for one in found if _name(one) == DRIFTING), None)


def _name(one: dict[str, Any]) -> tuple[str, ...]:
    return one["auditor"], one["metric"], one["axis"], one["group"]


def _settle(system: System) -> None:
    """Waits until every sampled exchange has been audited, failed or expired."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _waiting(system) and time.monotonic() < deadline:
        time.sleep(0.3)


def _waiting(system: System) -> int:
    outcomes = fetch(f"{system.gateway}/live/ledger")["outcomes"]
    return int(outcomes.get("queued", 0))


def _suites(system: System, runs: list[str]) -> bool:
    print("2. Every suite on demand, on embedded items (not comparable with published numbers):\n")
    done = [_finished(system, run_id) for run_id in runs]
    for audit in done:
        if audit["status"] != "done":
            print(f"   {audit['suite']}: {audit['status']}: {audit['error']}")
            continue
        result = fetch(f"{system.gateway}/audits/{audit['id']}/result")
        counts = ", ".join(f"{name} {count}" for name, count in result["counts"].items())
        print(_indented(tables.suite_table(result, _planted(result))))
        print(f"   {counts}. Report: {system.gateway}/audits/{audit['id']}/report\n")
    return all(audit["status"] == "done" for audit in done)


def _planted(result: dict[str, Any]) -> Expected:
    """What the run must have recovered, from the same items."""
    options = RunOptions(
        suite=result["suite"],
        model=result["model"],
        protocol=result["protocol"],
        data=result["dataset"]["kind"],
        limit=result["limit"],
        seed=result["seed"],
        embedder=result["provenance"]["embedder"],
    )
    return Expected(load(PROFILE), prepare(options))


def _finished(system: System, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        audit: dict[str, Any] = fetch(f"{system.gateway}/audits/{run_id}")
        if audit["status"] not in ("queued", "running"):
            return audit
        if time.monotonic() > deadline:
            raise GatewayError(f"the suite run {run_id} was not done within {PATIENCE_SECONDS:.0f} s: {audit}")
        time.sleep(0.3)


def _drift(system: System) -> bool:
    before = _audits(system)
    print("3. The model changes: from now on its replies about men are favourable. The same traffic goes on.")
    drift(system)
    _traffic(system, lambda: bool(fetch(f"{system.gateway}/live/alarms")))
    raised: list[dict[str, Any]] = fetch(f"{system.gateway}/live/alarms")
    for alarm in raised:
        print(
            f"   ALARM {' '.join(_name(alarm))}: log evidence {alarm['log_evidence']:.1f} over the threshold "
            f"{alarm['log_threshold']:.1f} after {_audits(system) - before} audits; exchange {alarm['exchange_id']}"
        )
    if not raised:
        print(f"   no alarm within {PATIENCE_SECONDS:.0f} s")
    print(
        f"   (mean number of audited exchanges between false alarms, over all streams: at least {AVERAGE_RUN_LENGTH})\n"
    )
    return DRIFTING in {_name(alarm) for alarm in raised}


def _ledger(system: System) -> None:
    outcomes = fetch(f"{system.gateway}/live/ledger")["outcomes"]
    print("4. The ledger: every request is in exactly one outcome.")
    print("   " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())) + "\n")


def _addresses(system: System, *, keep: bool) -> None:
    print(f"console {system.gateway}/console   metrics {system.gateway}/metrics and {system.auditor}/metrics")
    print(f"API description {system.gateway}/schema/openapi.json")
    print("" if keep else "These addresses end with the demo: make demo KEEP=1 (biasgate demo --keep) leaves them.\n")


def _wait_for_interrupt() -> None:
    print("Left running (KEEP=1). Ctrl-C stops it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()


def _indented(text: str) -> str:
    return "\n".join("   " + line for line in text.splitlines())
