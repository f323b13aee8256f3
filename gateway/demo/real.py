"""The demo on a small open model, whose biases nobody planted: traffic, live estimates, some suites, the ledger."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.run import result as results
from gateway.demo import findings, open_model, traffic
from gateway.demo.system import System, Upstream, indent, running, wait_for_interrupt
from gateway.terminal.progress import status_line
from gateway.terminal.tables import summary

SUITES = ["stereoset", "crows_pairs", "bbq", "unqover"]
LIMIT = 24
"""Items a suite asks."""
TRAFFIC_SECONDS = 45.0
ANSWER_TOKENS = 120
PATIENCE_SECONDS = 900.0

AUDITORS = """
[auditors.judge]
enabled = false

[auditors.embedding]
model = "minilm"

[auditors.counterfactual]
enabled = true
rate = 0.3
"""

INTRODUCTION = f"""\
biasgate demo --real: {open_model.NAME}, served by llama.cpp on this machine, behind a gateway and an auditor.
It sends live traffic with the official OpenAI client and runs suites on their embedded items. The judge is off:
a model of this size cannot judge.
"""
CAUTION = """\
A model of this size is hardly measurable: it often answers without naming an option, or names the same letter whatever
is asked, and its intervals are wide. What you saw is how the system measures, and no verdict on any model that people
use: docs/evidence/open-models.md has the same suites on a second model, with the shares of readable replies.
"""


def run(*, keep: bool) -> int:
    """Plays everything once; returns 0, or 1 when a suite did not finish."""
    model = open_model.fetch()
    command = ["-m", "gateway.demo.llama_server", str(model), "--name", open_model.NAME]
    with (
        tempfile.TemporaryDirectory(prefix="biasgate-demo-") as directory,
        running(Path(directory), Upstream("llama.cpp", command, AUDITORS)) as system,
    ):
        print(INTRODUCTION)
        print(f"Gateway and auditor are up: base URL {system.gateway}/v1, the model's {system.upstream}/v1")
        print(f"Console, unlocked by this link: {system.unlocked_console}\n", flush=True)
        _live(system)
        is_done = _suites(system)
        system.print_ledger(3)
        system.print_addresses(keep=keep)
        print(CAUTION, flush=True)
        if keep:
            wait_for_interrupt()
    return 0 if is_done else 1


def _live(system: System) -> None:
    deadline = time.monotonic() + TRAFFIC_SECONDS
    with status_line(sys.stderr) as show:
        show(f"live traffic for {TRAFFIC_SECONDS:.0f} s")
        answered = asyncio.run(
            traffic.send(
                system.gateway, open_model.NAME, is_enough=lambda: time.monotonic() > deadline, max_tokens=ANSWER_TOKENS
            )
        )
        show("audits of the live traffic")
        system.settle()
    print(f"1. Live traffic: {answered} requests answered. Live estimates:")
    print(indent(findings.live_table(system.fetch("/live/estimates"), None)) + "\n", flush=True)


def _suites(system: System) -> bool:
    runs = system.start_audits(SUITES, model=open_model.NAME, limit=LIMIT)
    with status_line(sys.stderr) as show:

        def show_progress() -> None:
            show(f"suites: {system.count_over(runs)} of {len(runs)}")

        audits = [system.await_run(run_id, show_progress, PATIENCE_SECONDS) for run_id in runs]
    print(f"2. Suites on demand, on at most {LIMIT} of their embedded items:")
    for audit in audits:
        print(f"   {audit['suite']}")
        print(indent(indent(_summary(system, audit))))
    print("", flush=True)
    return all(audit["status"] == "done" for audit in audits)


def _summary(system: System, audit: dict[str, Any]) -> str:
    if audit["status"] != "done":
        return f"{audit['status']}: {audit['error']}"
    return summary(results.decode(system.fetch_bytes(f"/audits/{audit['id']}/result")))
