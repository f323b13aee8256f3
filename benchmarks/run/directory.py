"""A run directory (contract 2): `run.json`, written first; `items.jsonl` and `responses.jsonl`, enough to score again
without the data set; `result.json` and `report.html` of a whole run; `session.json` for `--resume` (start, thinking).
"""

import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.text.user_files import NotUtf8Error, read_utf8
from benchmarks.errors import BenchmarkError, decode_lines, writing
from benchmarks.run.log import BLOCK_BYTES, Beginning, Placed, Replies, ReplyLines
from benchmarks.run.plan import Plan, RunOptions, prompt_sha256
from benchmarks.run.result import Result, decode, encode
from benchmarks.run.stopping import in_thread
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.common.observations import Observations
from benchmarks.suites.protocol import Item, Reply

MANIFEST, ITEMS, RESPONSES, RESULT, REPORT = "run.json", "items.jsonl", "responses.jsonl", "result.json", "report.html"

SESSION = "session.json"

_ENCODER = msgspec.json.Encoder()
_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
MOST_SAMPLES = 10_000
"""Most replies to an item that a file recorded elsewhere may number."""


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
    """Address of the judge; None if it is served where the model is."""
    judge_api_key_env: str | None = None
    embedder_base_url: str | None = None
    """Address of the embedder; None if it is loaded here."""


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
    """Makes a new run directory with run.json and items.jsonl. Raises as `begin`."""
    begin(path, about)
    complete_items(path, plan)


def complete_items(path: Path, plan: Plan) -> None:
    """Writes items.jsonl where a run was stopped before it was there."""
    if (path / ITEMS).exists():
        return
    with writing(path):
        write_items(path / ITEMS, plan.items)


def begin(path: Path, about: Manifest) -> None:
    """Makes a run directory with run.json alone, enough for --resume. Raises BenchmarkError."""
    with writing(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            hint = f"use --resume {path} to complete it" if (path / MANIFEST).exists() else "choose another --out"
            raise BenchmarkError(f"{path}: the directory is not empty: {hint}")
        _write(path / MANIFEST, msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")


def discard_unanswered(path: Path) -> bool:
    """Remove a begun run that has no answer, so that its directory can begin again; return whether it was removed."""
    if n_answered(path):
        return False
    for name in (RESPONSES, ITEMS, SESSION, MANIFEST):
        (path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.rmdir()
    return True


def read_manifest(path: Path) -> Manifest:
    """Read the manifest. Raises BenchmarkError if `path` is not a run directory."""
    try:
        return msgspec.json.decode((path / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path}: no run directory (it has no readable {MANIFEST})") from exc


def began(path: Path) -> float:
    """Return when the run in a directory was begun, in Unix seconds. Raises BenchmarkError for another directory."""
    try:
        return (path / MANIFEST).stat().st_mtime
    except OSError as exc:
        raise BenchmarkError(f"{path / MANIFEST}: {exc.strerror}") from exc


def read_result(path: Path) -> Result:
    """The result of a finished run. Raises BenchmarkError if there is none, with what to do."""
    hint = f"complete it with biasgate audit run --resume {path}" if (path / MANIFEST).exists() else "no run is there"
    try:
        return decode((path / RESULT).read_bytes())
    except FileNotFoundError as exc:
        raise BenchmarkError(f"{path}: no {RESULT}: {hint}") from exc
    except (OSError, *UNREADABLE) as exc:
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
                f"{path}: cannot resume: {name} was {_format_value(value)} and is now {_format_value(after[name])}: "
                "use the same value, or start a new run with another --out"
            )


def finish(path: Path, result: Result, page: str) -> None:
    """Writes result.json, and `page` as report.html (see `benchmarks.reporting.report.render`)."""
    _write(path / REPORT, page.encode())
    _write(path / RESULT, encode(result))


def write_items(path: Path, items: Sequence[Item]) -> None:
    """items.jsonl: each item with the sha256 of its prompt."""
    _write(path, _ENCODER.encode_lines(msgspec.to_builtins(item) | {"sha256": prompt_sha256(item)} for item in items))


def write_replies(path: Path, replies: Sequence[Reply]) -> None:
    """responses.jsonl of a run that was scored, not asked."""
    _write(path / RESPONSES, _ENCODER.encode_lines(replies))


def observations(path: Path) -> Observations:
    """Items and replies of a directory, in item order, read as they are looked at. A torn last line is left out."""
    items = _lines(path / ITEMS, Item)
    if not (path / RESPONSES).exists():
        return Observations((), lambda _: (), lambda _: 0)
    with (path / RESPONSES).open("rb") as file:
        log = ReplyLines(file, str(path / RESPONSES))
    samples = n_samples(path) or max((reply.sample + 1 for batch in log.batches() for _, reply in batch), default=0)
    replies = Replies(items, samples, log.reply)
    for batch in log.batches():
        for place, reply in batch:
            replies.put(reply, place)
    return Observations(items, replies.to, replies.n_to)


def n_samples(path: Path) -> int | None:
    """Replies an item that the run in a directory asks for; None if no run.json is there."""
    return read_manifest(path).options.samples if (path / MANIFEST).exists() else None


def n_answered(path: Path) -> int:
    """Return how many replies --resume does not ask for again: the latest of each that is not an error."""
    latest = {(reply.item_id, reply.sample): reply.status for reply in _lines(path / RESPONSES, Reply)}
    return sum(status != "error" for status in latest.values())


def n_items(path: Path) -> int:
    """Items of the run in a directory, asked or not."""
    if not (path / ITEMS).exists():
        return 0
    with (path / ITEMS).open("rb") as file:
        return sum(1 for _ in file)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """session.json: the last process that asked the run. Times are Unix seconds."""

    beginning: Beginning
    began_at: float
    """Unix seconds at which the process took the run on."""


class DirectoryLog:
    """The RunLog of a run directory: a line for each reply, append-only, held by a single process at a time."""

    def __init__(self, path: Path) -> None:
        """Opens `path`/responses.jsonl. Raises BenchmarkError if another process is writing it."""
        self._path = path / RESPONSES
        try:
            self._file: IO[bytes] = os.fdopen(_private(str(self._path), _APPENDING), "a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            self._file.close()
            raise BenchmarkError(f"{path}: another run is writing there: wait for it or stop it") from exc
        except OSError as exc:
            raise BenchmarkError(f"{self._path}: cannot be written: {exc.strerror}") from exc
        self._last_reply_at = os.fstat(self._file.fileno()).st_mtime  # cutting a line changes it
        descriptor = self._file.fileno()
        end = whole = os.fstat(descriptor).st_size
        while whole:
            start = max(0, whole - BLOCK_BYTES)
            newline = os.pread(descriptor, whole - start, start).rfind(b"\n")
            if newline >= 0:
                whole = start + newline + 1
                break
            whole = start
        if whole < end:
            os.truncate(self._path, whole)
        self._lines = ReplyLines(self._file, str(self._path))
        self._session: Session | None = None

    async def begin(self) -> Beginning:
        """See `RunLog`. A process that was killed has run until its last reply. Raises BenchmarkError."""
        now, session = time.time(), self._read_session()
        beginning = Beginning(started_at=now)
        if session is not None:
            ran = max(0.0, self._last_reply_at - session.began_at)
            beginning = msgspec.structs.replace(session.beginning, seconds=session.beginning.seconds + ran)
        self._write_session(Session(beginning=beginning, began_at=now))
        return beginning

    async def keep_thinking(self, thinking: ThinkingFound) -> None:
        """See `RunLog`. Raises BenchmarkError."""
        if (session := self._session) is not None:
            beginning = msgspec.structs.replace(session.beginning, thinking=thinking)
            self._write_session(msgspec.structs.replace(session, beginning=beginning))

    async def read(self) -> AsyncIterator[list[Placed]]:
        for batch in self._lines.batches():
            yield batch

    async def append(self, replies: Sequence[Reply]) -> list[int]:
        return self._lines.append([msgspec.json.encode(reply) for reply in replies])

    def reply(self, place: int) -> Reply:
        return self._lines.reply(place)

    async def keep_items(self, items: Sequence[Item]) -> None:
        await in_thread(write_items, self._path.with_name(ITEMS), items)

    def close(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)  # reading may still hold the file open
        self._file.close()

    def _read_session(self) -> Session | None:
        """Return the session; None if no readable session is there: the run was begun by an earlier version."""
        try:
            return msgspec.json.decode(self._path.with_name(SESSION).read_bytes(), type=Session)
        except (OSError, msgspec.DecodeError):
            return None

    def _write_session(self, session: Session) -> None:
        self._session = session
        path = self._path.with_name(SESSION)
        with writing(path):
            _write(path, msgspec.json.encode(session) + b"\n")


def read_recorded(path: Path) -> list[Reply]:
    """Replies recorded elsewhere: JSON lines with item_id and text. Raises BenchmarkError with file and line."""
    if not path.is_file():
        raise BenchmarkError(f"{path}: no such file of replies")
    replies: list[Reply] = _lines(path, Reply, keep_last=True)
    for reply in replies:
        if not 0 <= reply.sample < MOST_SAMPLES:
            raise BenchmarkError(
                f'{path}: the reply to "{reply.item_id}" has sample {reply.sample}, which must be from 0 to '
                f"{MOST_SAMPLES - 1}"
            )
    return replies


def _lines(path: Path, kind: Any, *, keep_last: bool = False) -> list[Any]:
    """Decoded lines. The part after the last newline counts only with `keep_last` (a file written by someone else)."""
    if not path.exists():
        return []
    try:
        content = read_utf8(path) if keep_last else path.read_bytes()
    except NotUtf8Error as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}") from exc
    whole = content if keep_last else content[: content.rfind(b"\n") + 1]
    return [decoded for _, decoded in decode_lines(whole, kind, path, "mend or remove the line")]


def _identity(of: Manifest) -> dict[str, Any]:
    options: dict[str, Any] = msgspec.to_builtins(of.options)
    for name in ("concurrency", "keep_reasoning"):
        del options[name]
    return options | {name: getattr(of, name) for name in ("suite_version", "dataset_sha256", "prompt_sha256")}


def _format_value(value: Any) -> str:
    return "not set" if value is None else f'"{value}"'


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a reader never sees half a file."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # of a process that was killed, with the mode it had
    with open(part, "wb", opener=_private) as file:
        file.write(content)
    part.replace(path)


def _private(path: str, flags: int) -> int:
    """Open a file that only the user may read: prompts and replies are in it."""
    return os.open(path, flags, 0o600)
