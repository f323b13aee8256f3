"""`biasgate canary`: asks a running gateway to compare a canary with a stable model, and waits for the verdict."""

import argparse
import json
import math
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import msgspec

from gateway.canary.comparison import GapReport
from gateway.canary.shown import ShownCanary
from gateway.cli.tables import aligned
from gateway.errors import GatewayError

HELP = """\
The auditor of the gateway replays sampled prompts on both models and compares every gap; docs/canary.md says how.

Exit codes of wait, and of start --wait: 0 promote, 1 rollback, 3 hold, 4 no verdict in time; 2 wrong usage, as always.

Example:
  biasgate canary start --stable qwen --canary qwen-tuned --wait
  biasgate canary status 3b1f0c52a7f84d6f9f0f5b8f8e0f7a11
  biasgate canary wait 3b1f0c52a7f84d6f9f0f5b8f8e0f7a11 --timeout 3600
"""
EXIT_CODES = {"promote": 0, "rollback": 1, "hold": 3, "undecided": 4}
GATEWAY = "http://127.0.0.1:8080"
POLL_SECONDS = 2.0
REQUEST_SECONDS = 30.0
LONGEST_REPLY_BYTES = 16 * 1024 * 1024


class AwayError(GatewayError):
    """The gateway cannot be reached, or asks to be asked again: waiting may help."""


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
        action.add_argument("--key-env", metavar="VAR", help="variable with a control key, where there are any")


def run(arguments: argparse.Namespace) -> int:
    gateway = _Gateway(arguments.gateway, arguments.key_env)
    if arguments.action == "start":
        canary_id = str(gateway.ask("/canaries", _request(arguments))["id"])
        print(canary_id, flush=True)
        return _wait(gateway, canary_id, arguments.timeout, as_json=False) if arguments.wait else 0
    if arguments.action == "wait":
        return _wait(gateway, arguments.id, arguments.timeout, as_json=arguments.json)
    _print(gateway, arguments.id, as_json=arguments.json)
    return 0


class _Gateway:
    """The control plane at a URL."""

    def __init__(self, url: str, key_variable: str | None) -> None:
        """Raises GatewayError for what is no URL, or a variable that is not set."""
        if not url.startswith(("http://", "https://")):
            raise GatewayError(f'--gateway "{url}" must start with http:// or https://')
        self._url = url.rstrip("/")
        self._headers = {"content-type": "application/json"}
        if key_variable is not None:
            key = os.environ.get(key_variable)
            if not key:
                raise GatewayError(f'environment variable "{key_variable}" (--key-env) is not set: export it')
            self._headers["authorization"] = f"Bearer {key}"

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that it answers a GET, or a POST of this body, with. Raises GatewayError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)  # noqa: S310 - http or https, see above
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 - the same
                reply = json.loads(answer.read(LONGEST_REPLY_BYTES))
        except urllib.error.HTTPError as exc:
            with exc:
                said = _detail(exc.read(LONGEST_REPLY_BYTES)) or f"status {exc.code}"
            raise (AwayError if exc.code in (429, 503) else GatewayError)(f"{self._url}: {said}") from exc
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "reason", exc)
            raise AwayError(f"{self._url}{path} gives no usable answer ({reason}): is the gateway there?") from exc
        if not isinstance(reply, dict):
            raise GatewayError(f"{self._url}{path} answers with no JSON object: is it a biasgate gateway?")
        return reply

    def canary(self, canary_id: str) -> ShownCanary:
        reply = self.ask(f"/canaries/{urllib.parse.quote(canary_id, safe='')}")
        try:
            return msgspec.convert(reply, ShownCanary)
        except msgspec.ValidationError as exc:
            raise GatewayError(f"{self._url}: another version of biasgate answers: {exc}") from exc


def _request(arguments: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for side in ("stable", "canary"):
        upstream = getattr(arguments, f"{side}_upstream")
        body[side] = {"model": getattr(arguments, side)} | ({"upstream": upstream} if upstream else {})
    for name in ("auditors", "axes"):
        if given := getattr(arguments, name):
            body[name] = [one.strip() for one in given.split(",") if one.strip()]
    for name in ("smallest_difference", "tolerance", "alpha", "max_pairs"):
        if (value := getattr(arguments, name)) is not None:
            if not math.isfinite(value):
                raise GatewayError(f"--{name.replace('_', '-')} {value} must be a number")
            body[name] = value
    return body


def _wait(gateway: _Gateway, canary_id: str, timeout: float, *, as_json: bool) -> int:
    """Until there is a verdict. A gateway that is away for a while is waited for, but not one that was never there."""
    if math.isnan(timeout) or timeout < 0:
        raise GatewayError(f"--timeout {timeout:g} must be 0 or more")
    deadline = time.monotonic() + timeout
    found, shown = gateway.canary(canary_id), -1
    while found.status != "done":
        if time.monotonic() >= deadline:
            print(f"no verdict after {timeout:g} s: {'; '.join(found.reasons)}", file=sys.stderr)
            return EXIT_CODES["undecided"]
        if found.n_pairs != shown:
            shown = found.n_pairs
            print(f"{found.status}: {'; '.join(found.reasons)}", file=sys.stderr, flush=True)
        time.sleep(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))
        try:
            found = gateway.canary(canary_id)
        except AwayError as exc:
            print(str(exc), file=sys.stderr, flush=True)
    _print(gateway, canary_id, as_json=as_json)
    return EXIT_CODES[found.verdict]


def _print(gateway: _Gateway, canary_id: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(gateway.ask(f"/canaries/{urllib.parse.quote(canary_id, safe='')}")))
        return
    found = gateway.canary(canary_id)
    print(f"{found.verdict} ({found.status})")
    for reason in found.reasons:
        print(f"- {reason}")
    if found.gaps:
        rows = [["gap", "axis", "group", "pairs", "left out", "stable", "canary", "growth", "bounds", "e-value", ""]]
        print("\n" + aligned([*rows, *map(_row, found.gaps)]))
        print(
            f"bounds hold at every look with {1 - found.alpha:.4g} each; excluded: below {found.smallest_difference:g}"
        )
    for one in found.beside:
        if one.n:
            print(
                f"{one.what}: stable {one.stable:.4g}, canary {one.canary:.4g} in {one.n} pairs; relative difference "
                f"{one.relative_difference:.3f} ({one.lower:.3f} to {one.upper:.3f})"
            )


def _row(one: GapReport) -> list[str]:
    return [
        one.metric,
        one.axis,
        one.group,
        str(one.n),
        str(one.n_excluded),
        _number(one.stable),
        _number(one.canary),
        _number(one.growth),
        f"{one.lower:.3f} to {one.upper:.3f}",
        "-" if one.e_value is None else f"{one.e_value:.3g}",
        "excluded" if one.is_excluded else "",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _detail(body: bytes) -> str | None:
    """What a problem says is wrong."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return None
