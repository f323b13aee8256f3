"""Writes a bundle: the files of a finished run, versions, the page of clauses, the statement about all of them."""

import io
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.bundles import clauses
from gateway.features.bundles.archive import ATTESTATION, Writer
from gateway.features.bundles.signing import encode, envelope, sign, statement

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RESULT, MANIFEST, ITEMS, RESPONSES, REPORT = "result.json", "run.json", "items.jsonl", "responses.jsonl", "report.html"
LEDGER, LABELS, VERSIONS, CLAUSES = "ledger.json", "labels/", "versions.json", "clauses.md"
PACKAGES = ("msgspec", "numpy", "scipy")
"""Besides biasgate: what numbers are formed with."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a bundle."""

    result: Mapping[str, Any]
    """result.json, decoded."""
    files: Mapping[str, Path | bytes]
    """Files by their name in the bundle."""
    absent: Mapping[str, str]
    """Files that the bundle could hold and does not, with the reason."""
    does_not_show: str | None = None
    """Text on what the suite does not show; None where that is not known."""


def write(file: IO[bytes], contents: Contents, key: "Ed25519PrivateKey | None" = None) -> int:
    """Write the bundle, return its number of files. Raises BenchmarkError for an unreadable or changing file."""
    origin = contents.result["provenance"]
    versions = {
        "run": {
            "biasgate": origin["biasgate"],
            "suite": {contents.result["suite"]: contents.result["suite_version"]},
            "model_fingerprints": origin.get("fingerprints", []),
        },
        "bundle": {
            "biasgate": version("biasgate"),
            "python": platform.python_version(),
            **{name: installed for name in PACKAGES if (installed := _version(name)) is not None},
        },
    }
    generated = {
        CLAUSES: clauses.page(contents.result, contents.absent, contents.does_not_show).encode(),
        VERSIONS: msgspec.json.format(msgspec.json.encode(versions), indent=1) + b"\n",
    }
    writer = Writer(file)
    for name, content in sorted({**contents.files, **generated}.items()):
        if isinstance(content, bytes):
            writer.add(name, io.BytesIO(content), len(content))
        else:
            _add(writer, name, content)
    names = ("suite", "suite_version", "model", "protocol", "mode", "mitigation")
    run = {name: contents.result.get(name) for name in names}
    run |= {"dataset_sha256": contents.result["dataset"]["sha256"], "prompt_sha256": origin["prompt_sha256"]}
    run |= {name: origin.get(name) for name in ("started", "finished")}
    about = statement(writer.members, run, contents.absent, version("biasgate"))
    wrapped = envelope(about) if key is None else sign(envelope(about), key)
    attestation = encode(wrapped)
    writer.add(ATTESTATION, io.BytesIO(attestation), len(attestation))
    writer.close()
    return len(writer.members)


def write_to(path: Path, contents: Contents, key: "Ed25519PrivateKey | None" = None) -> int:
    """Write the bundle, all or nothing, readable by its owner only: it holds replies. Raises BenchmarkError."""
    part = path.parent / f"{path.name}.part"
    try:
        part.unlink(missing_ok=True)  # of a process that was killed
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            n_files = write(file, contents, key)
        part.replace(path)
        return n_files
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be written: {exc.strerror}") from exc
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _add(writer: Writer, name: str, path: Path) -> None:
    try:
        with path.open("rb") as content:
            size = os.fstat(content.fileno()).st_size
            writer.add(name, content, size)
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read, or the bundle cannot be written: {exc.strerror}") from exc


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
