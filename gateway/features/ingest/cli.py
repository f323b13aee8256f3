"""`biasgate ingest`: sends a file of recorded exchanges to a running gateway, which draws from them and audits them."""

import argparse
import codecs
import gzip
import hashlib
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.text.visible import visible_line
from gateway.cli.actions import add_earlier_spelling
from gateway.cli.gateway_client import AWAY_STATUSES, GATEWAY, AwayError, GatewayClient, detail
from gateway.errors import GatewayError
from gateway.terminal.guard import unguarded

HELP = """\
Each line is a JSON object: {"id", "request", "response", ...}, a record of LiteLLM's callback, or a buffered trace of
Envoy's tap (docs/ingest.md). A line counts once, by its id, or without one by its place in the file: run the command
again after whatever stopped it. Exits 1 when a line was rejected.

Example:
  biasgate ingest gateway-log.jsonl --sampling-rate 0.1
  zcat log.jsonl.gz | biasgate ingest - --gateway https://biasgate.example --api-key-env BIASGATE_KEY
"""
BATCH_LINES = 200
BATCH_BYTES = 1024 * 1024
"""Bytes of lines that are sent together, unless one alone is larger."""
GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 64 * 1024 * 1024
REQUEST_SECONDS = 120.0
"""Time limit of a request, which may hold a line of `LONGEST_LINE` bytes."""
PATIENCE_SECONDS = 300.0
"""Seconds to wait for a gateway that is away or asks to come again, unless it was never there."""
MOST_NAMED = 20
"""Lines that are named; the others are counted."""
ENVELOPE = frozenset({"http_buffered_trace"})
_DOOR = "/ingest/http"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.jsonl", help="a JSON object a line, also gzip; - reads standard input")
    parser.add_argument("--gateway", default=GATEWAY, metavar="URL", help=f"default {GATEWAY}")
    parser.add_argument("--api-key-env", metavar="VAR", help="variable with one of the gateway's [[keys]]")
    add_earlier_spelling(parser, "--key-env", "api_key_env")
    parser.add_argument(
        "--sampling-rate",
        type=float,
        metavar="P",
        help="share of the traffic that is in the file, where no line says; needs a key that may_state_rate",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    rate = arguments.sampling_rate
    if rate is not None and not 0.0 < rate <= 1.0:
        raise GatewayError(f"--sampling-rate {rate:g} must be in (0, 1]: the share of the traffic that is in the file")
    sending = _Sending(arguments.gateway, arguments.api_key_env, rate)
    started = time.monotonic()
    with _opened(arguments.file) as lines:
        for batch in _batches(lines, sending):
            sending.send(batch)
            if sys.stderr.isatty():
                print(f"\r{sending.n_lines} lines sent", end="", file=unguarded(sys.stderr), flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    _print(sending, time.monotonic() - started, as_json=arguments.json)
    return 1 if sending.counts["rejected"] else 0


class _Line(msgspec.Struct, frozen=True):
    number: int
    body: bytes


class _Reply(msgspec.Struct):
    taken: int = 0
    duplicate: int = 0
    waiting: int = 0
    ignored: int = 0
    rates_ignored: int = 0
    rejected: int = 0
    errors: list[str] = []


class _Sending:
    def __init__(self, url: str, key_variable: str | None, rate: float | None) -> None:
        """Raises GatewayError for an invalid URL, or a variable that is not set."""
        self._gateway = GatewayClient(url, key_variable, content_type="application/x-ndjson")
        self._url = self._gateway.url + _DOOR
        self._headers = {} if rate is None else {"x-biasgate-sampling-rate": repr(rate)}
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.n_lines = 0
        self._was_there = False

    def reject(self, number: int, why: str) -> None:
        self.n_lines += 1
        self.counts["rejected"] += 1
        if len(self.errors) < MOST_NAMED:
            self.errors.append(f"line {number}: {why}")

    def send(self, batch: list[_Line]) -> None:
        """Send a batch and wait until the gateway took it. Raises GatewayError, which says where it stopped."""
        reply = self._reply(b"\n".join(line.body for line in batch), batch)
        if reply is None:  # none of it was understood, or it is too large: each by itself says which line is wrong
            if len(batch) > 1:
                for line in batch:
                    self.send([line])
            return
        self.n_lines += len(batch)
        for name in ("taken", "duplicate", "waiting", "ignored", "rates_ignored"):
            self.counts[name] += getattr(reply, name)
        self.counts["rejected"] += reply.rejected
        for error in reply.errors if reply.rejected else ():
            place, _, why = error.partition(": ")
            index = place.rpartition(" ")[2]
            is_place = index.isascii() and index.isdigit() and len(index) < 9 and int(index) < len(batch)
            number = batch[int(index)].number if is_place else batch[0].number
            if len(self.errors) < MOST_NAMED:
                self.errors.append(f"line {number}: {why}")

    def _reply(self, body: bytes, batch: list[_Line]) -> _Reply | None:
        deadline = time.monotonic() + (PATIENCE_SECONDS if self._was_there else 0.0)
        while True:
            wait = 2.0
            try:
                answer = self._gateway.send(_DOOR, body, headers=self._headers, seconds=REQUEST_SECONDS)
            except AwayError as exc:
                problem, is_away = str(exc), True
            else:
                if answer.is_success:
                    self._was_there = True
                    return self._read(answer.content)
                problem = f"{self._url}: {detail(answer.content) or f'status {answer.status_code}'}"
                if answer.status_code in (429, 503) and not self._was_there:
                    self._was_there, deadline = True, time.monotonic() + PATIENCE_SECONDS
                if answer.status_code in (400, 413):
                    if len(batch) == 1:
                        why = problem.removeprefix(f"{self._url}: ")
                        self.reject(batch[0].number, why.partition(": ")[2] if answer.status_code == 400 else why)
                    return None
                value = answer.headers.get("retry-after")
                wait = float(value) if value and value.isascii() and value.isdigit() else 2.0
                is_away = answer.status_code in AWAY_STATUSES
            if not is_away or time.monotonic() + wait > deadline:
                raise GatewayError(
                    f"{problem}; stopped before line {batch[0].number}, {self.n_lines} lines are done: "
                    "run it again, what is done counts once"
                )
            time.sleep(wait)

    def _read(self, content: bytes) -> _Reply:
        try:
            return msgspec.json.decode(content, type=_Reply)
        except UNREADABLE as exc:
            raise GatewayError(f"{self._url} gives no counts ({exc}): is it a biasgate gateway?") from exc


def _opened(name: str) -> IO[bytes]:
    if name == "-":
        return sys.stdin.buffer
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - whoever reads it closes it
        if file.peek(2)[:2] != GZIP_MAGIC:
            return file
        unzipped = gzip.GzipFile(fileobj=file)
        unzipped.myfileobj = file  # type: ignore[assignment]  # closed with it, whatever kind of file it is
        return cast("IO[bytes]", unzipped)
    except OSError as exc:
        raise GatewayError(f'"{name}" cannot be read: {exc.strerror}: give a file of JSON lines') from exc


def _batches(lines: IO[bytes], sending: _Sending) -> Iterator[list[_Line]]:
    """Lines that are objects, each with an id; the file is never held."""
    batch: list[_Line] = []
    size, number, first = 0, 0, b""
    while line := _next_line(lines, number):
        number += 1
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in line[:64]:
                raise GatewayError(f'"{lines.name}" is UTF-16: save the file as UTF-8')
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = _next_line(lines, number)
            sending.reject(number, f"more than {LONGEST_LINE} bytes")
            continue
        line = line.strip()
        if not line:
            continue
        first = first or hashlib.blake2b(line, digest_size=16).digest()
        body = _with_id(line, number, first)
        if body is None:
            sending.reject(number, "no JSON object")
            continue
        if batch and (len(batch) == BATCH_LINES or size + len(body) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(_Line(number, body))
        size += len(body)
    if batch:
        yield batch


def _next_line(lines: IO[bytes], number: int) -> bytes:
    """Read one line. Raises GatewayError where a compressed file is broken."""
    try:
        return lines.readline(LONGEST_LINE + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise GatewayError(
            f"the file cannot be read behind line {number}: {exc}: run it again with a whole one, a line counts once"
        ) from exc


def _with_id(line: bytes, number: int, first: bytes) -> bytes | None:
    """The line with an id: by its place where it has none, so that the same line of the same file has it again."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if "id" in data or "litellm_call_id" in data or ENVELOPE & data.keys() or "request" not in data:
        return line
    digest = hashlib.blake2b(first + number.to_bytes(8) + line, digest_size=16).hexdigest()
    return json.dumps(data | {"id": f"line {number} {digest}"}).encode()


def _print(sending: _Sending, seconds: float, *, as_json: bool) -> None:
    counts = {name: sending.counts[name] for name in ("taken", "duplicate", "waiting", "ignored", "rejected")}
    if as_json:
        summary = {"lines": sending.n_lines, **counts, "rates_ignored": sending.counts["rates_ignored"]}
        print(json.dumps({**summary, "seconds": round(seconds, 3), "errors": sending.errors}))
        return
    outcomes = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"{sending.n_lines} lines in {seconds:.1f} s: {outcomes}")
    for error in sending.errors:
        print(f"  {visible_line(error)}")
    if (more := counts["rejected"] - len(sending.errors)) > 0:
        print(f"  and {more} more")
    if ignored := sending.counts["rates_ignored"]:
        print(
            f"  the sampling rate of {ignored} lines was ignored: the gateway believes none from this key "
            "(may_state_rate), or has ingest.sampling_rate"
        )
