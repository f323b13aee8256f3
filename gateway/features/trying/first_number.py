"""`biasgate try`: the processes of `biasgate serve` before a model for an hour, with the numbers that they see."""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gateway.demo.findings import live_table
from gateway.demo.system import CONFIG_NAME, LOG_NAME, System, Upstream, running, serving
from gateway.errors import GatewayError
from gateway.features.trying.traffic import Server
from gateway.processes.listening import bind

HELP = """\
Every request is audited by the judge (the model itself, unless --judge names another) and for refusals. The console is
open with the link that is printed. Without --upstream a simulated model answers, whose biases are planted. Without
--dir or --keep nothing that was stored outlives the command. Ctrl-C stops all.

Example: `biasgate try --upstream http://127.0.0.1:8000`, then in another terminal `biasgate traffic --model NAME`.
"""
FIRST_EXCHANGES = 10
"""Audited exchanges before numbers are printed."""
FEW = "intervals narrow with each request; after a few they span nearly all that is possible"
REPORT_SECONDS = 20.0
POLL_SECONDS = 1.0
HOST = "127.0.0.1"
SIMULATE = ["-m", "gateway", "simulate"]
SIMULATED, SIMULATED_JUDGE = "simulated", "simulated-judge"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--upstream", metavar="URL", help="base URL of your model's server (default: the simulator)")
    parser.add_argument("--model", help="name of the model (default: the first that the server lists)")
    parser.add_argument("--judge", metavar="MODEL", help="model of the server that judges (default: the model itself)")
    parser.add_argument("--api-key-env", metavar="VAR", help="environment variable with the server's key")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on; 0 takes a free one (default: 8080)")
    parser.add_argument("--minutes", type=float, default=60.0, help="end after so many minutes (default: 60)")
    parser.add_argument("--dir", type=Path, help="directory of store and logs (default: a temporary one)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the configuration there, for biasgate serve")


def run(arguments: argparse.Namespace) -> int:
    _require_sound(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that its processes end too
    model, upstream = _read_upstream(arguments)
    with bind(HOST, arguments.port) as listener:  # refuses a port that is taken, before another gateway there answers
        port = listener.getsockname()[1]
    with _directory(arguments) as directory:
        if arguments.upstream is None:
            system_context = running(directory, upstream, port)
        else:
            system_context = serving(directory, upstream, arguments.upstream, port)
        with system_context as system:
            _print_start(system, model, directory, arguments)
            try:
                _watch(system, time.monotonic() + 60 * arguments.minutes)
            except KeyboardInterrupt:
                print("stopped")
            except httpx.HTTPError as exc:
                log = directory / LOG_NAME
                raise GatewayError(f"the gateway or its auditor answers no more ({exc}): see {log}") from exc
            print(_how_to_go_on(arguments), flush=True)
    return 0


def _require_sound(arguments: argparse.Namespace) -> None:
    if not 0 <= arguments.port <= 65535:
        raise GatewayError(f"--port {arguments.port} is not a port: choose 1 to 65535, or 0 for a free one")
    if not 0 < arguments.minutes <= 60 * 24 * 7:
        raise GatewayError(f"--minutes {arguments.minutes:g}: choose more than 0 and at most a week (10080)")
    if arguments.keep is None:
        return
    if arguments.upstream is None:
        raise GatewayError("--keep needs --upstream: the simulated model ends with this command")
    if arguments.keep.exists() or not arguments.keep.absolute().parent.is_dir():
        raise GatewayError(f"--keep {arguments.keep}: name a new file in a directory that exists")


def _read_upstream(arguments: argparse.Namespace) -> tuple[str, Upstream]:
    if arguments.upstream is None:
        judge, models, settings = arguments.judge or SIMULATED_JUDGE, [SIMULATED, SIMULATED_JUDGE], ""
    else:
        server = Server(arguments.upstream, "--upstream", arguments.api_key_env)
        judge, models = arguments.judge, asyncio.run(server.models())
        variable = arguments.api_key_env
        settings = "" if variable is None else f"api_key_env = {json.dumps(variable)}\n"
    for option, name in (("--model", arguments.model), ("--judge", judge)):
        if name is not None and name not in models:
            raise GatewayError(f'{option} "{name}" is not served there: choose from {", ".join(models)}')
    auditors = "\n[auditors.embedding]\nenabled = false\n"
    if judge is not None:
        auditors += f"\n[auditors.judge]\nmodel = {json.dumps(judge)}\n"
    return arguments.model or models[0], Upstream("model", SIMULATE, auditors, settings)


@contextmanager
def _directory(arguments: argparse.Namespace) -> Iterator[Path]:
    """Make the directory of store and logs; deletes it at the end unless the user has named it or keeps the file."""
    named = arguments.dir
    if named is None and arguments.keep is not None:
        named = arguments.keep.absolute().with_name(f"{arguments.keep.stem}-store")
    if named is None:
        with tempfile.TemporaryDirectory(prefix="biasgate-try-", ignore_cleanup_errors=True) as path:
            yield Path(path)
        return
    try:
        named.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise GatewayError(f"--dir {named}: {exc.strerror}: name a directory that can be made") from exc
    yield named


def _print_start(system: System, model: str, directory: Path, arguments: argparse.Namespace) -> None:
    end = datetime.now().astimezone() + timedelta(minutes=arguments.minutes)
    print(f"biasgate try: audits every request until {end:%H:%M}; Ctrl-C ends it sooner")
    print(f"base URL for clients  {system.gateway}/v1")
    print(f"console               {system.unlocked_console}")
    print(f"store and logs        {directory}")
    print(f"requests to try       biasgate traffic --url {system.gateway} --model {model}", flush=True)
    if arguments.keep is None:
        return
    lines = (directory / CONFIG_NAME).read_text(encoding="utf-8").splitlines(keepends=True)
    lines_to_keep = (line for line in lines if not line.startswith(("admin_key_env", "auditor_metrics_port")))
    arguments.keep.write_text("".join(lines_to_keep), encoding="utf-8")


def _watch(system: System, end: float) -> None:
    """Print what the auditor has seen, when more is known or after REPORT_SECONDS, until `end` (monotonic clock)."""
    printed, n_known, next_report = "", -1, 0.0
    while (now := time.monotonic()) < end:
        known_now, report = _report(system)
        if known_now > n_known or (report != printed and now >= next_report):
            print(report, flush=True)
            printed, n_known, next_report = report, max(n_known, known_now), now + REPORT_SECONDS
        time.sleep(min(POLL_SECONDS, end - now))


def _report(system: System) -> tuple[int, str]:
    """Return how many kinds of figures are known (numbers, costs), and their text, or the number of exchanges."""
    outcomes: dict[str, int] = system.fetch("/live/ledger")["outcomes"]
    audited = outcomes.get("audited", 0)
    not_audited = ", ".join(
        f"{name} {count}" for name, count in sorted(outcomes.items()) if name != "audited" and count
    )
    rest = f" ({not_audited})" if not_audited else ""
    if audited < FIRST_EXCHANGES:
        return 0, f"not yet: {audited} of {FIRST_EXCHANGES} exchanges audited{rest}"
    estimates = [each for each in system.fetch("/live/estimates") if not each["metric"].endswith("_gap")]
    cost = _cost(system)
    head = f"\n{audited} exchanges audited{rest}; {cost or 'their cost is not known yet'}"
    if not estimates:
        return 0, f"{head}\nno number: no request names a group of people, as those of biasgate traffic do"
    return 1 + (cost is not None), f"{head}\n{live_table(estimates, None)}\n{FEW}"


def _cost(system: System) -> str | None:
    """Return what the judge was asked, by the auditor's metrics, which are seconds old; None while they are empty."""
    page = httpx.get(f"{system.auditor}/metrics", timeout=10)
    page.raise_for_status()
    sums: Counter[str] = Counter()
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            if sample.name == "biasgate_judge_requests_total":
                sums["requests"] += int(sample.value)
            elif sample.name == "biasgate_audit_tokens_total" and sample.labels["auditor"] == "judge":
                sums[sample.labels["direction"]] += int(sample.value)
    requests = sums["requests"]
    if not requests:
        return None
    tokens = "of unknown length: the server counts no tokens"
    if sums["input"]:
        tokens = f"of {sums['input'] / requests:,.0f} tokens in, {sums['output'] / requests:,.0f} out"
    return f"{requests} judge requests {tokens}"


def _how_to_go_on(arguments: argparse.Namespace) -> str:
    if arguments.keep is not None:
        return f"to go on with this configuration and store: biasgate serve --config {arguments.keep}"
    if arguments.upstream is None:
        return "your own model: biasgate try --upstream http://127.0.0.1:8000 (the address of its server)"
    return "to keep the configuration, and what is stored, try again with --keep biasgate.toml"
