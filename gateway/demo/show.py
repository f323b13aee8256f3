"""The demo from start to end: traffic, live audits, every suite on demand, a planted drift and its alarm, a policy."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.run import result as results
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.simulator.loading import load
from benchmarks.simulator.planted.table import Expected
from gateway.demo import findings, traffic
from gateway.demo.findings import Finding
from gateway.demo.system import PATIENCE_SECONDS, System, Upstream, indent, running, wait_for_interrupt
from gateway.terminal.progress import status_line
from gateway.terminal.tables import estimates_table

PROFILE = "demo"
MODEL = "simulated"
LIMIT = 240
"""Items a suite asks: all of them, but for the thousands of `ltf_test`, `cogs` and `implicit_association`."""
SAMPLES = 3
REFERENCE_AUDITS = 200
AVERAGE_RUN_LENGTH = 100
"""Short on purpose: a demo lasts minutes. A service keeps the default of 100,000 exchanges between false alarms."""
QUIET_AUDITS = REFERENCE_AUDITS + 60
"""Reference first, then some audits in which nothing may alarm."""
DRIFTING = ("judge", "favoritism", "gender", "man")
LEAST_INSIDE = 0.8
"""Share of planted values that 95 % intervals must cover, lower as numbers of the same run depend on each other."""

AUDITORS = f"""
[auditors.judge]
model = "simulated-judge"

[auditors.embedding]
model = "minilm"
rate = 0.1

[auditors.affinity]
enabled = true
rate = 0.04
token_budget_per_minute = 100_000

[auditors.counterfactual]
enabled = true
rate = 0.05
token_budget_per_minute = 60_000

[[mitigation]]
name = "demo"
match = {{ route = "{traffic.MITIGATED}" }}
instruction = "abstract"
share = 0.5
unit = "request"

[drift]
average_run_length = {AVERAGE_RUN_LENGTH}
tolerance = 0.02
reference = {{ window = {REFERENCE_AUDITS} }}
"""

INTRODUCTION = """\
biasgate demo: a simulated model with planted biases behind a gateway and an auditor; nothing real is judged.
It sends live traffic with the official OpenAI client, runs every suite on its embedded items (not comparable with
published numbers), then changes the model, waits for the drift alarm, and tries a policy against the change.
"""


def run(*, seed: int, keep: bool, verbose: bool = False) -> int:
    """Plays everything once; returns 0, or 1 when an audit, a planted value or the alarm did not come."""
    simulate = ["-m", "gateway", "simulate", "--profile", PROFILE, "--seed", str(seed)]
    with (
        tempfile.TemporaryDirectory(prefix="biasgate-demo-") as directory,
        running(Path(directory), Upstream("simulator", simulate, AUDITORS)) as system,
    ):
        print(INTRODUCTION)
        print(f"Gateway and auditor are up: base URL {system.gateway}/v1, the simulated model's {system.upstream}/v1")
        print(f"Console, unlocked by this link: {system.unlocked_console}\n", flush=True)
        runs = system.start_audits(model=MODEL, limit=LIMIT, samples=SAMPLES)
        is_quiet = _before_the_change(system, runs, verbose=verbose)
        is_recovered = _suites(system, runs, verbose=verbose)
        is_alarmed = _drift(system)
        is_mitigated = _mitigation(system)
        system.settle()
        system.print_ledger(5)
        system.print_addresses(keep=keep)
        is_well = is_quiet and is_recovered and is_alarmed and is_mitigated
        as_planted = f"As planted: at least {LEAST_INSIDE:.0%} of the values inside, and no alarm before the change."
        print(as_planted if is_well else "NOT as planted: see above.", flush=True)
        if keep:
            wait_for_interrupt()
    return 0 if is_well else 1


def _before_the_change(system: System, runs: list[str], *, verbose: bool) -> bool:
    with status_line(sys.stderr) as show:

        def is_enough() -> bool:
            audits = _audits(system)
            show(f"live traffic: {audits} of {QUIET_AUDITS} audits; suites: {system.count_over(runs)} of {len(runs)}")
            return audits >= QUIET_AUDITS

        answered = _traffic(system, is_enough)
        system.settle()
    estimates: list[dict[str, Any]] = system.fetch("/live/estimates")
    listed = estimates if verbose else [estimate for estimate in estimates if estimate["metric"] == DRIFTING[1]]
    alarms = system.fetch("/live/alarms")
    print(f"1. Live traffic: {answered} requests answered. Live estimates{'' if verbose else ' of the judge'}:")
    print(indent(findings.live_table(listed, load(PROFILE))))
    print(f"   Alarms so far: {len(alarms)} (nothing has changed yet, so there should be none).\n", flush=True)
    return not alarms


def _suites(system: System, runs: list[str], *, verbose: bool) -> bool:
    with status_line(sys.stderr) as show:
        done = [
            system.await_run(run_id, lambda: show(f"suites: {system.count_over(runs)} of {len(runs)}"))
            for run_id in runs
        ]
        reports = [_read_finding(system, audit, verbose=verbose) for audit in done if audit["status"] == "done"]
    print("2. Every suite on demand, on its embedded items:")
    print(indent(findings.suites_table([finding for finding, _ in reports])))
    for audit in done:
        if audit["status"] != "done":
            print(f"   {audit['suite']}: {audit['status']}: {audit['error']}")
    n_inside, n_planted = (sum(getattr(finding, name) for finding, _ in reports) for name in ("n_inside", "n_planted"))
    print(
        f"   {n_inside} of {n_planted} planted values lie inside their 95 % intervals; some 5 % are expected outside.\n"
    )
    for _, table in reports if verbose else []:
        print(f"{table}\n", flush=True)
    return len(reports) == len(done) and n_inside >= LEAST_INSIDE * n_planted


def _read_finding(system: System, audit: dict[str, Any], *, verbose: bool) -> tuple[Finding, str]:
    path = f"/audits/{audit['id']}"
    result = results.decode(system.fetch_bytes(f"{path}/result"))
    planted = findings.planted_of(_planted(result))
    if not verbose:
        return findings.finding(result, planted), ""
    counts = ", ".join(f"{name} {count}" for name, count in result.counts.items())
    about = f"{counts}. Report: {system.gateway}{path}/report"
    return findings.finding(result, planted), f"{result.suite}\n{estimates_table(result, planted)}\n{about}"


def _drift(system: System) -> bool:
    before = _audits(system)
    system.drift()
    with status_line(sys.stderr) as show:

        def is_raised() -> bool:
            show(f"the model has changed: {_audits(system) - before} audits since, no alarm yet")
            return bool(system.fetch("/live/alarms"))

        _traffic(system, is_raised)
    raised: list[dict[str, Any]] = system.fetch("/live/alarms")
    print("3. The model changed: its replies about men became favourable, under the same traffic.")
    for alarm in raised:
        # Audits that were under way have moved the evidence on, and new streams the threshold.
        print(
            f"   ALARM {' '.join(_name(alarm))}: raised within {_audits(system) - before} audits; log evidence is now "
            f"{alarm['log_evidence']:.1f}, an alarm now needs {alarm['log_threshold']:.1f}"
        )
        if _name(alarm) == DRIFTING and alarm["exchanges"] is not None:
            print(f"   The exchange that raised it, {alarm['exchange_id']}:")
            for line in findings.exchange_lines(system.fetch(alarm["exchanges"]), alarm["exchange_id"]):
                print(f"     {line}")
    if not raised:
        print(f"   no alarm within {PATIENCE_SECONDS:.0f} s")
    cause = _cause(system, raised)
    print(f"   {cause}")
    print(
        f"   (at least {AVERAGE_RUN_LENGTH} audited exchanges between false alarms, mean over all streams)\n",
        flush=True,
    )
    return DRIFTING in {_name(alarm) for alarm in raised}


def _cause(system: System, raised: list[dict[str, Any]]) -> str:
    stream = next((alarm["stream"] for alarm in raised if _name(alarm) == DRIFTING), None)
    if stream is None:
        return "What caused it is not known without an alarm of that series."
    with status_line(sys.stderr) as show:

        def is_told() -> bool:
            cause: dict[str, Any] = system.fetch(f"/live/alarms/{stream}/cause")
            show(cause["sentence"])
            return bool(cause["status"] != "pending")

        _traffic(system, is_told)
    return str(system.fetch(f"/live/alarms/{stream}/cause")["sentence"])


def _mitigation(system: System) -> bool:
    with status_line(sys.stderr) as show:

        def is_found() -> bool:
            effect = _effect(system)
            seen = [effect[arm]["n"] for arm in ("treated", "control")] if effect else [0, 0]
            show(f"a policy treats half of the requests: {seen[0]} treated and {seen[1]} control audits")
            return effect is not None and effect["upper"] is not None and effect["upper"] < 0.0

        _traffic(system, is_found, to_policy=True)
    effect = _effect(system)
    print('4. A policy adds "please do not rely on stereotypes." to half of the requests, all about men:')
    if effect is None or effect["difference"] is None:
        print("   no audits of both arms yet\n", flush=True)
        return False
    print(indent(findings.arms_table(effect, load(PROFILE).drifted())))
    beside: list[dict[str, Any]] = system.fetch("/live/mitigations?auditor=answer")
    print(indent(findings.quality_table(beside)) + "\n", flush=True)
    return bool(effect["upper"] < 0.0)


def _effect(system: System) -> dict[str, Any] | None:
    auditor, metric, axis, group = DRIFTING
    effects: list[dict[str, Any]] = system.fetch(f"/live/mitigations?auditor={auditor}&axis={axis}")
    return next((effect for effect in effects if (effect["metric"], effect["group"]) == (metric, group)), None)


def _traffic(system: System, is_enough: Callable[[], bool], *, to_policy: bool = False) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS

    def is_over() -> bool:
        return time.monotonic() > deadline or is_enough()

    return asyncio.run(traffic.send(system.gateway, MODEL, is_enough=is_over, to_policy=to_policy))


def _audits(system: System) -> int:
    estimates: list[dict[str, Any]] = system.fetch("/live/estimates")
    return next((int(estimate["n"]) for estimate in estimates if _name(estimate) == DRIFTING), 0)


def _name(estimate: dict[str, Any]) -> tuple[str, ...]:
    return estimate["auditor"], estimate["metric"], estimate["axis"], estimate["group"]


def _planted(result: Result) -> Expected:
    options = RunOptions(
        suite=result.suite,
        model=result.model,
        protocol=result.protocol,
        data=result.dataset.kind,
        limit=result.limit,
        seed=result.seed,
        embedder=result.provenance.embedder,
    )
    return Expected(load(PROFILE), prepare(options))
