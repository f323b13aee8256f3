"""GET /audits/{id}/bundle: a finished run of the store as one file, signed where there is a key."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.api.problems import UnavailableError
from gateway.config.schema import Config
from gateway.errors import BusyError, ConfigError, ConflictError, StoreError
from gateway.features.bundles import building
from gateway.features.bundles.building import Contents
from gateway.features.bundles.signing import private_key
from gateway.store import ledger, run_responses
from gateway.store.database import Database
from gateway.store.runs import Run

PIECE = 1 << 18
MOST_AT_ONCE = 2
"""Bundles that one worker makes at a time: each has the replies of a run on disk twice."""

NO_ITEMS = "the store keeps none: audit score makes them again from run.json and the data set"
NO_LABELS = "none: the store's labels go out with biasgate annotate export"


_turns = asyncio.Semaphore(MOST_AT_ONCE)


class Packed:
    """A bundle in a temporary file that has no name, so that no end of this process leaves it behind."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = file.seek(0, 2)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the bundle in pieces; closes it at the end, or when the reader stops."""
        try:
            self._file.seek(0)
            while piece := await asyncio.to_thread(self._file.read, PIECE):
                yield piece
        finally:
            self._file.close()


async def packed(database: Database, run: Run, config: Config) -> Packed:
    """Return a finished run's bundle. Raises UnavailableError (unusable key), ConflictError or BusyError."""
    try:
        pem = config.secret(config.audits.bundle_key_env)
    except ConfigError as exc:
        raise UnavailableError(f"audits.bundle_key_env: {exc}") from exc
    counts = await ledger.counts(database)
    if _turns.locked():
        raise BusyError("bundles of other runs are being made: ask again in a minute")
    async with _turns:
        with tempfile.TemporaryDirectory(prefix="biasgate-bundle-") as folder:
            replies = Path(folder) / "responses.jsonl"
            with replies.open("wb") as file:
                async for bodies in run_responses.pages(database, run.id):
                    await asyncio.to_thread(file.write, "".join(f"{body}\n" for body in bodies).encode())
            return Packed(await asyncio.to_thread(_pack, run, replies, _ledger(counts), pem))


def _pack(run: Run, replies: Path, ledger_json: bytes, pem: str | None) -> IO[bytes]:
    """Return a nameless file. Raises UnavailableError (key), ConflictError (result) or StoreError (replies)."""
    try:
        key = None if pem is None else private_key(pem.encode(), "audits.bundle_key_env")
    except BenchmarkError as exc:
        raise UnavailableError(str(exc)) from exc
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes the file
    try:
        result: dict[str, Any] = msgspec.json.decode(run.result or "{}")
        manifest = {
            "options": run.options,
            "suite_version": result["suite_version"],
            "dataset_sha256": result["dataset"]["sha256"],
            "prompt_sha256": result["provenance"]["prompt_sha256"],
        }
        files: dict[str, Path | bytes] = {
            building.RESULT: (run.result or "").encode(),
            building.MANIFEST: msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n",
            building.RESPONSES: replies,
            building.REPORT: (run.report or "").encode(),
            building.LEDGER: ledger_json,
        }
        absent = {building.ITEMS: NO_ITEMS, building.LABELS: NO_LABELS}
        building.write(file, Contents(result=result, files=files, absent=absent), key)
    except (KeyError, TypeError, AttributeError, msgspec.DecodeError) as exc:
        file.close()
        raise ConflictError(f"audit {run.id} has a result of another version, which cannot be packed: {exc!r}") from exc
    except BenchmarkError as exc:
        file.close()
        raise StoreError(str(exc)) from exc
    return file


def _ledger(counts: Mapping[tuple[str, str], int]) -> bytes:
    outcomes: Counter[str] = Counter()
    strata: dict[str, dict[str, int]] = {}
    for (stratum, outcome), count in sorted(counts.items()):
        outcomes[outcome] += count
        strata.setdefault(stratum, {})[outcome] = count
    read_at = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"read_at": read_at, "outcomes": dict(sorted(outcomes.items())), "strata": strata}
    return msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n"
