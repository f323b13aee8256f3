"""Published data sets, used only when they are exactly the pinned content.
Each file is verified by itself; the normalised content of all is stored in one step, and its hash checked at every
load. Where no hash of the published file is known, every load is held to the hash noted at fetching.
"""

import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.datasets.spec import HOME_VARIABLE, DatasetSpec, content_sha256
from benchmarks.errors import DatasetError


class DatasetState(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `biasgate datasets list` or `verify`."""

    name: str
    title: str
    licence: str
    n_items: int
    state: Literal["present", "absent", "damaged"]
    path: str
    sha256: str | None = None
    """Found hash when present or damaged."""
    expected_sha256: str | None
    """The pinned hash, or the hash found at fetching; None before that."""


def home(data_dir: Path | None = None) -> Path:
    """Cache directory: the given one, else $BIASGATE_HOME, else ~/.cache/biasgate."""
    if data_dir is not None:
        return data_dir
    configured = os.environ.get(HOME_VARIABLE)
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "biasgate"


def load(spec: DatasetSpec, data_dir: Path | None = None) -> Any:
    """The normalised records, verified. Raises DatasetError when absent (how to fetch), or with both hashes."""
    path = cached(spec, data_dir)
    try:
        content = path.read_bytes()
    except FileNotFoundError as exc:
        raise DatasetError(
            f"{spec.name}: the canonical data is not here ({path}): run `biasgate datasets fetch {spec.name}`, "
            "or pass --data embedded for the built-in items (not comparable)"
        ) from exc
    except OSError as exc:
        raise DatasetError(f"{spec.name}: {path} cannot be read: {exc.strerror}") from exc
    digest = hashlib.sha256(content).hexdigest()
    demand(_expected(spec, path), digest, f"{path}: not the pinned {spec.name} data", "fetch it again")
    return _decoded(content)


def _decoded(content: bytes) -> Any:
    """A list record by record: all of 30 MB in one call would hold up every other thread for most of a second."""
    if not content.startswith(b"["):
        return msgspec.json.decode(content)
    decoder = msgspec.json.Decoder()
    return [decoder.decode(record) for record in msgspec.json.decode(content, type=list[msgspec.Raw])]


def load_embedded(name: str, sha256: str) -> Any:
    """The records of benchmarks/suites/NAME/embedded.json, a part of this software. Raises DatasetError."""
    packaged = resources.files("benchmarks").joinpath(f"suites/{name}/embedded.json")
    records = msgspec.json.decode(packaged.read_bytes())["data"]
    demand(sha256, content_sha256(records), f"{name}: the embedded items differ", "install again")
    return records


def load_built_in(name: str, file: str, sha256: str) -> str:
    """The text of benchmarks/suites/NAME/FILE.json, a part of this software. Raises DatasetError."""
    content = resources.files("benchmarks").joinpath(f"suites/{name}/{file}.json").read_bytes()
    demand(sha256, hashlib.sha256(content).hexdigest(), f"{name}: the built-in texts {file} differ", "install again")
    return content.decode()


def state(spec: DatasetSpec, data_dir: Path | None = None) -> DatasetState:
    """Return whether the data is there and is the pinned content. Reads and hashes the file."""
    path = cached(spec, data_dir)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    expected = _expected(spec, path)
    verdict: Literal["present", "absent", "damaged"] = "absent"
    if digest is not None:
        verdict = "present" if digest == expected else "damaged"
    return DatasetState(
        name=spec.name,
        title=spec.title,
        licence=spec.licence,
        n_items=spec.n_items,
        state=verdict,
        path=str(path),
        sha256=digest,
        expected_sha256=expected,
    )


def demand(expected: str | None, actual: str, what: str, remedy: str) -> None:
    if actual != expected:
        raise DatasetError(f"{what}: expected {expected}, found {actual}: {remedy}")


def cached(spec: DatasetSpec, data_dir: Path | None) -> Path:
    return home(data_dir) / "datasets" / spec.name / "content.json"


def _expected(spec: DatasetSpec, path: Path) -> str | None:
    """Return the hash that stored content must have: the pinned hash, else the hash noted when it was fetched."""
    if spec.content_sha256:
        return spec.content_sha256
    return noted(path).read_text() if noted(path).is_file() else None


def noted(path: Path) -> Path:
    return path.with_name("content.sha256")
