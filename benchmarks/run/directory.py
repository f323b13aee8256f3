"""A run directory (contract 2): what was asked, what came back, what it amounts to.

`run.json` says what the run is and is written first; `items.jsonl` and `responses.jsonl` are enough to score again
without the data set; `result.json` and `report.html` appear when the run is complete.
"""

import asyncio
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.run.plan import Plan, RunOptions, prompt_sha256
from benchmarks.run.result import Result, decode, encode
from benchmarks.suites.protocol import Item, Observation, Reply

MANIFEST, ITEMS, RESPONSES, RESULT, REPORT = "run.json", "items.jsonl", "responses.jsonl", "result.json", "report.html"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """run.json: the identity of a run, and how its server was reached."""

    options: RunOptions
    suite_version: str
    dataset_sha256: str
    prompt_sha256: str
    base_url: str | None = None
    through_gateway: bool = False
    api_key_env: str | None = None
    judge_base_url: str | None = None
    """Where the judge is served; None: where the model is."""
    judge_api_key_env: str | None = None
    embedder_base_url: str | None = None
    """Where the embedder is served; None: it is loaded here."""


def manifest(plan: Plan, **reached: Any) -> Manifest:
    """The manifest of a plan; `reached` is how its servers are, see `Manifest`."""
    return Manifest(
        options=plan.options,
        suite_version=plan.suite.version,
        dataset_sha256=plan.dataset.sha256,
        prompt_sha256=plan.prompt_sha256,
        **reached,
    )


def create(path: Path, plan: Plan, about: Manifest) -> None:
    """Makes a new run directory with run.json and items.jsonl.

    Raises: BenchmarkError if the directory holds anything already, or cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            hint = f"use --resume {path} to complete it" if (path / MANIFEST).exists() else "choose another --out"
            raise BenchmarkError(f"{path}: the directory is not empty: {hint}")
        write_items(path / ITEMS, plan.items)
        _write(path / MANIFEST, msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be written: {exc.strerror}") from exc


def read_manifest(path: Path) -> Manifest:
    """Raises BenchmarkError if `path` is no run directory."""
    return _read(path / MANIFEST, Manifest, f"{path}: no run directory (it has no readable {MANIFEST})")


def read_result(path: Path) -> Result:
    """The result of a finished run. Raises BenchmarkError if there is none, with what to do."""
    hint = f"complete it with biasgate audit run --resume {path}" if (path / MANIFEST).exists() else "no run is there"
    try:
        return decode((path / RESULT).read_bytes())
    except FileNotFoundError as exc:
        raise BenchmarkError(f"{path}: no {RESULT}: {hint}") from exc
    except (OSError, msgspec.DecodeError) as exc:
        raise BenchmarkError(f"{path / RESULT}: cannot be read: {exc}") from exc


def finished_under(root: Path) -> list[Path]:
    """`root` itself, or the finished run directories in it when it holds some and is none."""
    below = sorted(path.parent for path in root.glob(f"*/{RESULT}"))
    return [root] if (root / RESULT).exists() or not below else below


def demand_same(path: Path, recorded: Manifest, now: Manifest) -> None:
    """Raises BenchmarkError naming the first value in which a resumed run would differ from the recorded one."""
    before, after = _identity(recorded), _identity(now)
    for name, value in before.items():
        if after[name] != value:
            raise BenchmarkError(
                f"{path}: cannot resume: {name} was {_shown(value)} and is now {_shown(after[name])}: "
                "use the same value, or start a new run with another --out"
            )


def finish(path: Path, result: Result, page: str) -> None:
    """Writes result.json, and `page` as report.html (see `benchmarks.reporting.report.render`)."""
    _write(path / REPORT, page.encode())
    _write(path / RESULT, encode(result))


def write_items(path: Path, items: Sequence[Item]) -> None:
    """items.jsonl: each item with the sha256 of its prompt."""
    lines = (msgspec.to_builtins(item) | {"sha256": prompt_sha256(item)} for item in items)
    _write(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def write_replies(path: Path, replies: Sequence[Reply]) -> None:
    """responses.jsonl of a run that was scored, not asked."""
    _write(path / RESPONSES, b"".join(msgspec.json.encode(reply) + b"\n" for reply in replies))


def observations(path: Path) -> list[Observation]:
    """Items and replies of a directory, in item order. Reads only; a torn last line is left out."""
    items = {item.item_id: item for item in _lines(path / ITEMS, Item)}
    found = {(reply.item_id, reply.sample): reply for reply in _lines(path / RESPONSES, Reply)}
    order = {item_id: index for index, item_id in enumerate(items)}
    keys = sorted((key for key in found if key[0] in items), key=lambda key: (order[key[0]], key[1]))
    return [Observation(items[key[0]], found[key]) for key in keys]


class DirectoryLog:
    """The RunLog of a run directory: one line a reply, append-only, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Opens `path`/responses.jsonl. Raises BenchmarkError if another process is writing it."""
        self._path = path / RESPONSES
        try:
            self._file: IO[bytes] = self._path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            self._file.close()
            raise BenchmarkError(f"{path}: another run is writing there: wait for it or stop it") from exc
        except OSError as exc:
            raise BenchmarkError(f"{self._path}: cannot be written: {exc.strerror}") from exc
        self._cut_torn_line()

    async def existing(self) -> list[Reply]:
        return _lines(self._path, Reply)

    async def append(self, replies: Sequence[Reply]) -> None:
        try:
            self._file.write(b"".join(msgspec.json.encode(reply) + b"\n" for reply in replies))
            self._file.flush()
        except OSError as exc:
            raise BenchmarkError(f"{self._path}: cannot be written: {exc.strerror}") from exc

    async def keep_items(self, items: Sequence[Item]) -> None:
        await asyncio.to_thread(write_items, self._path.with_name(ITEMS), items)

    def close(self) -> None:
        self._file.close()

    def _cut_torn_line(self) -> None:
        """A process killed while writing leaves half a line; its reply is asked again."""
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self._path, whole)


def read_recorded(path: Path) -> list[Reply]:
    """Replies recorded elsewhere: a JSON lines file with at least item_id and text.

    Raises: BenchmarkError naming the file and line.
    """
    if not path.is_file():
        raise BenchmarkError(f"{path}: no such file of replies")
    return _lines(path, Reply, keep_last=True)


def _lines(path: Path, kind: Any, *, keep_last: bool = False) -> list[Any]:
    """Decoded lines. The part after the last newline counts only with `keep_last` (a file written by someone else)."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    if not keep_last:
        lines.pop()
    decoder, found = msgspec.json.Decoder(kind), []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError as exc:
            raise BenchmarkError(f"{path}, line {number}: {exc}: mend or remove the line") from exc
    return found


def _identity(of: Manifest) -> dict[str, Any]:
    options: dict[str, Any] = msgspec.to_builtins(of.options)
    del options["concurrency"]
    return options | {
        "suite_version": of.suite_version,
        "dataset_sha256": of.dataset_sha256,
        "prompt_sha256": of.prompt_sha256,
    }


def _shown(value: Any) -> str:
    return "not set" if value is None else f'"{value}"'


def _read(path: Path, kind: type[Manifest], complaint: str) -> Manifest:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as exc:
        raise BenchmarkError(complaint) from exc


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a reader never sees half a file."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)
