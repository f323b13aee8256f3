"""Files that users get from the authors themselves, under any of their names; unpacked here, verified by the caller."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from benchmarks.datasets.spec import LARGEST_BYTES
from benchmarks.errors import DatasetError


def content(name: str, stored_as: str, source: Path) -> bytes:
    """Return the bytes, unpacked, of a file or of its copy in a directory (`stored_as`). Raises DatasetError."""
    path = _find(name, stored_as, source)
    key = PurePosixPath(stored_as).name.removesuffix(".gz")
    raw = read_file(name, path)
    try:
        if raw.startswith(b"PK\x03\x04"):
            return _from_zip(name, path, raw, key)
        return _bounded(name, path, gzip.GzipFile(fileobj=io.BytesIO(raw)).read) if raw.startswith(b"\x1f\x8b") else raw
    except _UNPACKING_ERRORS as exc:
        raise DatasetError(f"{name}: {path} cannot be unpacked ({exc}): get it again") from exc


def read_file(name: str, path: Path) -> bytes:
    """Return a data set's file. Raises DatasetError if irregular, unreadable or longer than `LARGEST_BYTES`."""
    try:
        if path.exists() and not path.is_file():
            raise DatasetError(f"{name}: {path} is not a regular file")
        if path.stat().st_size > LARGEST_BYTES:
            raise DatasetError(f"{name}: {path} has more than {LARGEST_BYTES} bytes: this is another file")
        return path.read_bytes()
    except FileNotFoundError as exc:
        raise DatasetError(f"{name}: the mirror has no {path}: {exc.strerror}") from exc
    except OSError as exc:
        raise DatasetError(f"{name}: {path} cannot be read: {exc.strerror}") from exc


_UNPACKING_ERRORS = (
    OSError,  # unreadable, or no gzip after all
    EOFError,  # gzip: cut off
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,  # zip: encrypted
    NotImplementedError,  # zip: packed by a method that Python lacks
)


def _find(name: str, stored_as: str, source: Path) -> Path:
    if source.is_file():
        return source
    packed = PurePosixPath(stored_as)
    plain = packed.with_name(packed.name.removesuffix(".gz"))
    names = [str(n) for candidate in (packed, plain, plain.with_suffix(".zip")) for n in (candidate, candidate.name)]
    path = next((source / name for name in names if (source / name).is_file()), None)
    if path is None:
        raise DatasetError(
            f"{name}: {source} is neither a file nor a directory with one of {', '.join(dict.fromkeys(names))}"
        )
    return path


def _from_zip(name: str, path: Path, raw: bytes, key: str) -> bytes:
    """Return the single member called `key`, in any folder; files that a Mac adds to the archive do not count."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [m for m in archive.namelist() if PurePosixPath(m).name == key and not m.startswith("__MACOSX/")]
        if len(members) != 1:
            raise DatasetError(
                f"{name}: {path} must hold {key} once, not {len(members)} times: unpack it and pass the file"
            )
        with archive.open(members[0]) as file:
            return _bounded(name, path, file.read)


def _bounded(name: str, path: Path, read: Callable[[int], bytes]) -> bytes:
    unpacked = read(LARGEST_BYTES + 1)
    if len(unpacked) > LARGEST_BYTES:
        raise DatasetError(f"{name}: {path} unpacks to more than {LARGEST_BYTES} bytes: this is another file")
    return unpacked
