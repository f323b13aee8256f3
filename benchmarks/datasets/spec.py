"""The description of a published data set: its files, how each is recognised, and the pinned content."""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import msgspec

HOME_VARIABLE, MIRROR_VARIABLE = "BIASGATE_HOME", "BIASGATE_DATASETS_MIRROR"
"""Environment variables: where published data sets are stored, and where they are fetched from."""
LARGEST_BYTES = 256 * 2**20
"""Most bytes that a file of a data set may have, packed or unpacked."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a data set, where it comes from and how each copy of it is recognised."""

    url: str | None = None
    """Pinned raw file, by commit. None when it may not be downloaded for the user (see DatasetSpec.by_hand)."""
    git_blob: str | None = None
    """Git blob id of the upstream file: sha1 of "blob <length>", a zero byte, and the content."""
    sha256: str | None = None
    """sha256 of the upstream file."""
    mirror_path: str
    """Path of the copy under a mirror; usually packed (.gz)."""
    mirror_sha256: str
    """sha256 of that copy as it is stored there; empty when none is known (see DatasetSpec.content_sha256)."""

    is_trusted_first: bool = False
    """No id of the file at `url` is known: the first download is trusted, and later ones are held to its content."""
    name: str | None = None
    """Only needed when two files of a data set have the same name in different folders."""

    @property
    def key(self) -> str:
        """Name under which `normalise` finds the unpacked bytes: by default the mirror's file name without .gz."""
        return self.name or PurePosixPath(self.mirror_path).name.removesuffix(".gz")


class DatasetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a data set and what it must contain."""

    name: str
    title: str
    licence: str
    n_items: int
    """Records in the published files."""
    files: tuple[SourceFile, ...]
    content_sha256: str
    """sha256 of the normalised content. Empty when no hash of the published files is known: then they come by hand,
    `normalise` must refuse what is not complete, and results carry the hash of what was used."""
    normalise: Callable[[Mapping[str, bytes]], Any]
    """Keeps what the suite uses, drops the rest; from unpacked bytes by `SourceFile.key` to plain data."""
    by_hand: str | None = None
    """Completes "get it from ..." for a file that is not downloaded; any copy with the pinned content is accepted."""

    def __post_init__(self) -> None:
        if not self.files or len({file.key for file in self.files}) < len(self.files):
            raise ValueError(f"{self.name}: a data set needs files, with names that differ")
        if not self.content_sha256 and self.by_hand is None and not self.is_trusted_first:
            raise ValueError(f"{self.name}: only data brought by hand may go without a pinned hash")
        if self.content_sha256 and not all(file.mirror_sha256 for file in self.files):
            raise ValueError(f"{self.name}: the content is pinned, so every file of it must be")
        if self.by_hand and len(self.files) > 1:
            raise ValueError(f"{self.name}: a data set that users get by hand has one file")

    @property
    def is_trusted_first(self) -> bool:
        return any(file.is_trusted_first for file in self.files)


def read_spec(name: str, normalise: Callable[[Mapping[str, bytes]], Any]) -> DatasetSpec:
    """Read benchmarks/suites/NAME/source.json, which pins the published data of a suite."""
    content = resources.files("benchmarks").joinpath(f"suites/{name}/source.json").read_bytes()
    fields = msgspec.json.decode(content)
    files = msgspec.convert(fields.pop("files"), tuple[SourceFile, ...])
    return DatasetSpec(**fields, files=files, normalise=normalise)


def content_sha256(records: Any) -> str:
    """sha256 of the canonical JSON: sorted keys, no spaces, UTF-8."""
    return hashlib.sha256(canonical_json(records)).hexdigest()


def csv_rows(content: bytes, *, delimiter: str = ",") -> list[dict[str, str]]:
    """Return a UTF-8 table's rows by column name, without empty lines. Raises ValueError for an uneven row."""
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    head, *rows = [row for row in csv.reader(text, delimiter=delimiter, strict=True) if row]
    return [dict(zip(head, row, strict=True)) for row in rows]


def canonical_json(records: Any) -> bytes:
    return msgspec.json.encode(records, order="sorted")
