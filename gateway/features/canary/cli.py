"""`biasgate canary`: asks a running gateway to compare a canary with a stable model, and waits for the verdict."""

import argparse
import json
import math
import sys
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import msgspec

from auditors.text.visible import visible_line
from gateway.cli.actions import add_earlier_spelling
from gateway.cli.gateway_client import GATEWAY, REQUEST_SECONDS, AwayError, GatewayClient
from gateway.errors import GatewayError
from gateway.features.canary.comparison import GapReport
from gateway.features.canary.shown import ShownCanary
from gateway.terminal.tables import aligned

HELP = """\
The auditor of the gateway replays sampled prompts on both models and compares every gap; docs/canary.md says how.

Exit codes of wait, and of start --wait: 0 promote, 1 rollback, 3 hold, 4 no verdict in time; 2 wrong usage, as always.
wait tries again while the gateway, or a proxy before it, cannot be reached or answers 408, 429 or 5xx.

Example:
  biasgate canary start --stable qwen --canary qwen-tuned --wait
  biasgate canary status 3b1f0c52a7f84d6f9f0f5b8f8e0f7a11
  biasgate canary wait 3b1f0c52a7f84d6f9f0f5b8f8e0f7a11 --timeout 3600
"""
EXIT_CODES = {"promote": 0, "rollback": 1, "hold": 3, "undecided": 4}
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 300.0
"""Seconds without an answer of the gateway after which `wait` ends, where --timeout is not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="start|wait|status")
    start = actions.add_parser("start", help="start a comparison and print its id")
    start.add_argument("--stable", required=True, metavar="MODEL", help="the model that serves now")
    start.add_argument("--canary", required=True, metavar="MODEL", help="the model that is to replace it")
    start.add_argument("--stable-upstream", metavar="NAME", help="where the stable model is asked (default: any)")
    start.add_argument("--canary-upstream", metavar="NAME", help="where the canary is asked (default: any)")
    start.add_argument("--auditors", metavar="NAMES", help="whose probes, with commas (default: all that can be)")
    start.add_argument("--axes", metavar="NAMES", help="axes, with commas (default: all)")
    start.add_argument("--smallest-difference", type=float, metavar="D", help="to be excluded, 0..1 (default 0.1)")
    start.add_argument("--tolerance", type=float, metavar="D", help="growth not held against it (default 0)")
    start.add_argument("--alpha", type=float, metavar="P", help="probability of a wrong verdict (default 0.01)")
    start.add_argument("--max-pairs", type=int, metavar="N", help="pairs, then hold (default 2000)")
    start.add_argument("--wait", action="store_true", help="wait for the verdict")
    wait = actions.add_parser("wait", help="wait for the verdict, which is the exit code")
    status = actions.add_parser("status", help="print how far it is")
    for action in (wait, status):
        action.add_argument("id", help="as start printed it")
        action.add_argument("--json", action="store_true", help="print what GET /canaries/{id} answers")
    for action in (start, wait):
        action.add_argument(
            "--timeout", type=float, default=math.inf, metavar="SECONDS", help="wait no longer than this"
        )
    for action in (start, wait, status):
        action.add_argument("--gateway", default=GATEWAY, metavar="URL", help=f"default {GATEWAY}")
        action.add_argument("--api-key-env", metavar="VAR", help="variable with a control key, where there are any")
        add_earlier_spelling(action, "--key-env", "api_key_env")


def run(arguments: argparse.Namespace) -> int:
    gateway = _Gateway(arguments.gateway, arguments.api_key_env)
    if arguments.action == "start":
        body: dict[str, Any] = {}
        for side in ("stable", "canary"):
            upstream = getattr(arguments, f"{side}_upstream")
            body[side] = {"model": getattr(arguments, side)} | ({"upstream": upstream} if upstream else {})
        for name in ("auditors", "axes"):
            if listed := getattr(arguments, name):
                body[name] = [entry.strip() for entry in listed.split(",") if entry.strip()]
        for name in ("smallest_difference", "tolerance", "alpha", "max_pairs"):
            if (value := getattr(arguments, name)) is not None:
                if not math.isfinite(value):
                    raise GatewayError(f"--{name.replace('_', '-')} {value} must be a number")
                body[name] = value
        canary_id = gateway.start(body)
        print(canary_id, flush=True)
        return _wait(gateway, canary_id, arguments.timeout, as_json=False) if arguments.wait else 0
    if arguments.action == "wait":
        return _wait(gateway, arguments.id, arguments.timeout, as_json=arguments.json)
    _print(gateway.canary(arguments.id), gateway.reply if arguments.json else None)
    return 0


class _Gateway(GatewayClient):
    reply: Mapping[str, Any] = {}
    """The last reply, as it came."""

    def start(self, body: Mapping[str, Any]) -> str:
        """Start a canary and return its id. Raises GatewayError."""
        canary_id = self.ask("/canaries", body).get("id")
        if not isinstance(canary_id, str):
            raise GatewayError(f"{self.url}/canaries answers without an id: is it a biasgate gateway?")
        return canary_id

    def canary(self, canary_id: str, *, seconds: float = REQUEST_SECONDS) -> ShownCanary:
        """Raises AwayError, GatewayError."""
        self.reply = self.ask(f"/canaries/{urllib.parse.quote(canary_id, safe='')}", seconds=seconds)
        try:
            return msgspec.convert(self.reply, ShownCanary)
        except msgspec.ValidationError as exc:
            raise GatewayError(f"{self.url}: another version of biasgate answers: {exc}") from exc


def _wait(gateway: _Gateway, canary_id: str, timeout: float, *, as_json: bool) -> int:
    """Return the exit code of the verdict. Without --timeout, wait `PATIENCE_SECONDS` for an answer at most."""
    if math.isnan(timeout) or timeout < 0:
        raise GatewayError(f"--timeout {timeout:g} must be 0 or more")
    started = answered = time.monotonic()
    canary: ShownCanary | None = None
    n_printed, problem = -1, ""
    while True:
        deadline = started + timeout if math.isfinite(timeout) else answered + PATIENCE_SECONDS
        try:
            canary = gateway.canary(canary_id, seconds=max(1.0, min(REQUEST_SECONDS, deadline - time.monotonic())))
        except AwayError as exc:
            if str(exc) != problem:
                problem = str(exc)
                print(visible_line(f"{problem}; trying again"), file=sys.stderr, flush=True)
        else:
            answered, problem = time.monotonic(), ""
            if canary.status == "done":
                _print(canary, gateway.reply if as_json else None)
                return EXIT_CODES[canary.verdict]
            if canary.n_pairs != n_printed:
                n_printed = canary.n_pairs
                print(visible_line(f"{canary.status}: {'; '.join(canary.reasons)}"), file=sys.stderr, flush=True)
            if not math.isfinite(timeout):
                deadline = answered + PATIENCE_SECONDS
        if time.monotonic() >= deadline:
            why = problem or ("" if canary is None else "; ".join(canary.reasons))
            print(visible_line(f"no verdict after {time.monotonic() - started:.3g} s: {why}"), file=sys.stderr)
            return EXIT_CODES["undecided"]
        time.sleep(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))


def _print(canary: ShownCanary, reply: Mapping[str, Any] | None) -> None:
    if reply is not None:
        print(json.dumps(reply))
        return
    print(f"{canary.verdict} ({canary.status})")
    for reason in canary.reasons:
        print(f"- {visible_line(reason)}")
    if canary.webhook is not None and canary.webhook.status != "delivered":
        why = f" ({canary.webhook.problem})" if canary.webhook.problem else ""
        print(f"webhook: {canary.webhook.status} after {canary.webhook.attempts} attempts{why}")
    if canary.gaps:
        rows = [["gap", "axis", "group", "pairs", "left out", "stable", "canary", "growth", "bounds", "e-value", ""]]
        print("\n" + aligned([*rows, *map(_row, canary.gaps)]))
        excluded = f"excluded: below {canary.smallest_difference:g}"
        print(f"bounds hold at every look with {1 - canary.alpha:.4g} each; {excluded}")
    for proxy in canary.beside:
        if proxy.n:
            means = f"stable {proxy.stable:.4g}, canary {proxy.canary:.4g} in {proxy.n} pairs"
            growth = f"{proxy.relative_difference:.3f} ({proxy.lower:.3f} to {proxy.upper:.3f})"
            print(f"{proxy.what}: {means}; relative difference {growth}")


def _row(gap: GapReport) -> list[str]:
    means = ["-" if value is None else f"{value:.3f}" for value in (gap.stable, gap.canary, gap.growth)]
    bounds, e_value = f"{gap.lower:.3f} to {gap.upper:.3f}", "-" if gap.e_value is None else f"{gap.e_value:.3g}"
    mark = "excluded" if gap.is_excluded else ""
    return [gap.metric, gap.axis, gap.group, str(gap.n), str(gap.n_excluded), *means, bounds, e_value, mark]
