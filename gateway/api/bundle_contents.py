"""What a bundle of a run of the store is made of; needs the benchmarks, so it is loaded with the first bundle."""

import tempfile
from pathlib import Path
from typing import IO, Any

import msgspec

from benchmarks.bundles import building
from benchmarks.bundles.building import Contents
from benchmarks.bundles.signing import private_key
from benchmarks.errors import BenchmarkError
from gateway.api.problems import UnavailableError
from gateway.errors import ConflictError, StoreError
from gateway.store.runs import Run

NO_ITEMS = "the store keeps none: audit score makes them again from run.json and the data set"
NO_LABELS = "none: the store's labels go out with biasgate annotate export"


def pack(run: Run, replies: Path, ledger_json: bytes, pem: str | None) -> IO[bytes]:
    """The bundle in a temporary file that has no name; signed with the private key `pem`.

    Raises: UnavailableError for a key that is none, ConflictError for a result that cannot be packed, StoreError for
        replies that cannot be read.
    """
    try:
        key = None if pem is None else private_key(pem.encode(), "audits.bundle_key_env")
    except BenchmarkError as exc:
        raise UnavailableError(str(exc)) from exc
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever reads it
    try:
        building.write(file, _contents(run, replies, ledger_json), key)
    except (KeyError, TypeError, AttributeError, msgspec.DecodeError) as exc:
        file.close()
        raise ConflictError(f"audit {run.id} has a result of another version, which cannot be packed: {exc!r}") from exc
    except BenchmarkError as exc:
        file.close()
        raise StoreError(str(exc)) from exc
    return file


def _contents(run: Run, replies: Path, ledger_json: bytes) -> Contents:
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
    return Contents(result=result, files=files, absent=absent)
