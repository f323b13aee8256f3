"""Published data sets: pinned, fetched once, and used only when they are exactly the pinned content.

A data set is one or more files. Each comes from a pinned upstream commit or from a mirror and is verified by itself;
only when all of them are, their normalised content is stored, in one step. The content's own hash is pinned too and
checked at every load: what is used is what was verified. Where no hash of the published file is known, the hash found
at fetching is kept beside the content and is what every load is held to. Each suite states its source;
benchmarks.registry lists them.
"""

import csv
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import httpx
import msgspec

from benchmarks import by_hand
from benchmarks.errors import DatasetError

MIRROR_VARIABLE = "BIASGATE_DATASETS_MIRROR"
HOME_VARIABLE = "BIASGATE_HOME"

Progress = Callable[[int, int | None], None]
"""Called with bytes received and bytes expected of the file in hand (None when the server does not say)."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
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

    name: str | None = None
    """Only needed when two files of a data set have the same name in different folders."""

    @property
    def key(self) -> str:
        """Name under which `normalise` finds the unpacked bytes: by default the mirror's file name without .gz."""
        return self.name or PurePosixPath(self.mirror_path).name.removesuffix(".gz")


class DatasetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where a data set comes from and what it must contain."""

    name: str
    """The suite's own name."""
    title: str
    licence: str
    n_items: int
    """Records in the published files."""
    files: tuple[SourceFile, ...]
    content_sha256: str
    """sha256 of the normalised content, the same for every source. Empty when no hash of the published files is known:
    then they come by hand, `normalise` must refuse what is not complete, and results carry the hash of what was used.
    """
    normalise: Callable[[Mapping[str, bytes]], Any]
    """Keeps what the suite uses, drops the rest; from unpacked bytes by `SourceFile.key` to plain data."""
    by_hand: str | None = None
    """Where users get a file that is not downloaded for them, and why: one line, completing "get it from ...". Such a
    set has one file, and any copy of it is taken whose normalised content is the pinned one, however packed or saved.
    """

    def __post_init__(self) -> None:
        if not self.files or len({file.key for file in self.files}) < len(self.files):
            raise ValueError(f"{self.name}: a data set needs files, with names that differ")
        if not self.content_sha256 and self.by_hand is None:
            raise ValueError(f"{self.name}: only data brought by hand may go without a pinned hash")
        if self.content_sha256 and not all(file.mirror_sha256 for file in self.files):
            raise ValueError(f"{self.name}: the content is pinned, so every file of it must be")
        if self.by_hand and len(self.files) > 1:
            raise ValueError(f"{self.name}: a data set that users get by hand has one file")


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
    """The pinned hash, or the one found at fetching; None before that."""


def home(data_dir: Path | None = None) -> Path:
    """Cache directory: the given one, else $BIASGATE_HOME, else ~/.cache/biasgate."""
    if data_dir is not None:
        return data_dir
    configured = os.environ.get(HOME_VARIABLE)
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "biasgate"


def content_sha256(records: Any) -> str:
    """sha256 of the canonical JSON: sorted keys, no spaces, UTF-8."""
    return hashlib.sha256(_canonical_json(records)).hexdigest()


def load(known: DatasetSpec, data_dir: Path | None = None) -> Any:
    """The normalised records, verified.

    Raises: DatasetError when absent (with the command that fetches it) or not the pinned content (with both hashes).
    """
    path = _cached(known, data_dir)
    try:
        content = path.read_bytes()
    except FileNotFoundError as exc:
        raise DatasetError(
            f"{known.name}: the canonical data is not here ({path}): run `biasgate datasets fetch {known.name}`, "
            "or pass --data embedded for the built-in items (not comparable)"
        ) from exc
    except OSError as exc:
        raise DatasetError(f"{known.name}: {path} cannot be read: {exc.strerror}") from exc
    found = hashlib.sha256(content).hexdigest()
    _demand(_expected(known, path), found, f"{path}: not the pinned {known.name} data", "fetch it again")
    return msgspec.json.decode(content)


def load_embedded(name: str, sha256: str) -> Any:
    """The records of benchmarks/data/NAME_embedded.json, which are part of this software.

    Raises: DatasetError when they are not the pinned ones.
    """
    packaged = resources.files("benchmarks").joinpath(f"data/{name}_embedded.json")
    records = msgspec.json.decode(packaged.read_bytes())["data"]
    _demand(sha256, content_sha256(records), f"{name}: the embedded items differ", "install again")
    return records


def state(known: DatasetSpec, data_dir: Path | None = None) -> DatasetState:
    """Whether the data is there and is the pinned content. Reads and hashes the file."""
    path = _cached(known, data_dir)
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    expected = _expected(known, path)
    verdict: Literal["present", "absent", "damaged"] = "absent"
    if found is not None:
        verdict = "present" if found == expected else "damaged"
    return DatasetState(
        name=known.name,
        title=known.title,
        licence=known.licence,
        n_items=known.n_items,
        state=verdict,
        path=str(path),
        sha256=found,
        expected_sha256=expected,
    )


def fetch(
    known: DatasetSpec, *, mirror: str | None = None, data_dir: Path | None = None, on_progress: Progress | None = None
) -> Path:
    """Fetches, verifies and stores one data set; a good copy that is already there is left alone.

    Files that were downloaded and verified are kept until the last one is, so a broken connection costs only the rest.

    Args:
        known: the data set.
        mirror: directory or URL that holds every `mirror_path`; default $BIASGATE_DATASETS_MIRROR, else the upstream.
            For a set that users get by hand also the file itself, as a CSV or as the archive it came in.
        data_dir: cache; default see `home`.
        on_progress: see `Progress`.

    Returns: path of the verified content.
    Raises: DatasetError; nothing unverified is ever left under the final name.
    """
    target = _cached(known, data_dir)
    if state(known, data_dir).state == "present":
        return target
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = _Source(known, mirror, target.parent, on_progress)
    raw = {file.key: source.unpacked(file) for file in known.files}
    for part in target.parent.glob("*.part"):
        part.unlink()
    part = target.with_name(target.name + ".part")
    content = _content(known, raw)
    part.write_bytes(content)
    if not known.content_sha256:
        _noted(target).write_text(hashlib.sha256(content).hexdigest())
    part.replace(target)
    return target


def csv_rows(content: bytes, *, delimiter: str = ",") -> list[dict[str, str]]:
    """Rows of a UTF-8 table with a header line, by column name, without empty lines; any line ends, with or without a
    byte order mark. Raises ValueError for a row of another length.
    """
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    head, *rows = [row for row in csv.reader(text, delimiter=delimiter, strict=True) if row]
    return [dict(zip(head, row, strict=True)) for row in rows]


def _content(known: DatasetSpec, raw: Mapping[str, bytes]) -> bytes:
    try:
        content = _canonical_json(known.normalise(raw))
    except (msgspec.DecodeError, csv.Error, LookupError, TypeError, ValueError) as exc:
        raise DatasetError(
            f"{known.name}: what was fetched has another shape than expected ({exc}): nothing was kept"
        ) from exc
    if known.content_sha256:
        found, what = hashlib.sha256(content).hexdigest(), f"{known.name}: the content differs from the pinned one"
        _demand(known.content_sha256, found, what, "nothing was kept")
    return content


def git_blob_id(content: bytes) -> str:
    """The id git gives a file: sha1 of a header with the length, and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Source:
    """Gets the files of one data set from the upstream or a mirror, each verified."""

    def __init__(self, known: DatasetSpec, mirror: str | None, folder: Path, on_progress: Progress | None) -> None:
        self._known = known
        self._mirror = mirror
        self._folder = folder
        self._on_progress = on_progress

    def unpacked(self, file: SourceFile) -> bytes:
        if self._mirror is None:
            return self._from_upstream(file)
        if self._mirror.startswith(("http://", "https://")):
            where = f"{self._mirror.rstrip('/')}/{file.mirror_path}"
            part = self._folder / f"mirror-{file.key}.part"
            return _unpack(where, self._downloaded(where, part, lambda content: _verify_mirror(file, content, where)))
        if self._known.by_hand:
            return by_hand.content(self._known.name, file.mirror_path, Path(self._mirror).expanduser())
        return self._from_directory(file, Path(self._mirror).expanduser())

    def _from_upstream(self, file: SourceFile) -> bytes:
        url = file.url
        if url is None:
            name, origin = self._known.name, self._known.by_hand or "its authors"
            raise DatasetError(
                f"{name}: this data is not downloaded for you: get it from {origin}, and run "
                f"`biasgate datasets fetch {name} --mirror FILE` with the file you got, {file.key} or an archive of it"
            )
        part = self._folder / f"upstream-{file.key}.part"
        return _unpack(url, self._downloaded(url, part, lambda content: _verify_upstream(file, content, url)))

    def _from_directory(self, file: SourceFile, mirror: Path) -> bytes:
        """The mirror's copy, or the upstream file itself under the same name without .gz."""
        path = mirror / file.mirror_path
        original = path.with_name(path.name.removesuffix(".gz"))
        if not path.is_file() and original.is_file():
            content = original.read_bytes()
            _verify_upstream(file, content, str(original))
            return content
        try:
            content = path.read_bytes()
        except OSError as exc:
            raise DatasetError(f"{self._known.name}: the mirror has no {path}: {exc.strerror}") from exc
        _verify_mirror(file, content, str(path))
        return _unpack(str(path), content)

    def _downloaded(self, url: str, part: Path, verify: Callable[[bytes], None]) -> bytes:
        """A verified part of an earlier try is used as it is; one that is not is continued, and discarded if wrong."""
        if part.is_file():
            try:
                verify(content := part.read_bytes())
            except DatasetError:
                pass
            else:
                return content
        content = _download(url, part, self._on_progress)
        try:
            verify(content)
        except DatasetError:
            part.unlink(missing_ok=True)
            raise
        return content


def _verify_mirror(file: SourceFile, content: bytes, where: str) -> None:
    if not file.mirror_sha256:
        return
    found = hashlib.sha256(content).hexdigest()
    _demand(file.mirror_sha256, found, f"{where}: not the pinned file (sha256)", "it was discarded")


def _verify_upstream(file: SourceFile, content: bytes, where: str) -> None:
    """Every id that is known must agree; a file without any is never accepted."""
    if file.git_blob is None and file.sha256 is None:
        raise DatasetError(f"{where}: no id of this file is pinned, so it cannot be verified: use a --mirror")
    if file.git_blob is not None:
        what = f"{where}: not the pinned file (git blob id)"
        _demand(file.git_blob, git_blob_id(content), what, "it was discarded")
    if file.sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        _demand(file.sha256, found, f"{where}: not the pinned file (sha256)", "it was discarded")


def _unpack(where: str, content: bytes) -> bytes:
    if not where.endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as exc:
        raise DatasetError(f"{where}: cannot be unpacked: {exc}") from exc


def _download(url: str, part: Path, on_progress: Progress | None) -> bytes:
    """Downloads into `part`, continuing one that was cut off. The caller verifies, so a wrong joint is noticed."""
    have = part.stat().st_size if part.is_file() else 0
    # An encoded body cannot be continued at a byte of the decoded file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=30.0) as response:
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                return part.read_bytes()
            response.raise_for_status()
            resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
            _write(response, part, have if resumed else 0, on_progress)
    except httpx.HTTPStatusError as exc:
        raise DatasetError(f"{url}: the server answered {exc.response.status_code}: try a --mirror") from exc
    except httpx.HTTPError as exc:
        raise DatasetError(
            f"{url} cannot be reached or broke off ({exc or type(exc).__name__}): "
            "try again, what has come is kept and continued, or use --mirror DIR_OR_URL"
        ) from exc
    return part.read_bytes()


def _write(response: httpx.Response, part: Path, have: int, on_progress: Progress | None) -> None:
    length = response.headers.get("content-length")
    encoded = "content-encoding" in response.headers
    total = have + int(length) if length and not encoded else None
    with part.open("ab" if have else "wb") as file:
        for chunk in response.iter_bytes():
            file.write(chunk)
            have += len(chunk)
            if on_progress is not None:
                on_progress(have, total)


def _demand(expected: str | None, found: str, what: str, remedy: str) -> None:
    if found != expected:
        raise DatasetError(f"{what}: expected {expected}, found {found}: {remedy}")


def _cached(known: DatasetSpec, data_dir: Path | None) -> Path:
    return home(data_dir) / "datasets" / known.name / "content.json"


def _expected(known: DatasetSpec, path: Path) -> str | None:
    """The hash that stored content must have: the pinned one, else the one noted when it was fetched."""
    if known.content_sha256:
        return known.content_sha256
    return _noted(path).read_text() if _noted(path).is_file() else None


def _noted(path: Path) -> Path:
    return path.with_name("content.sha256")


def _canonical_json(records: Any) -> bytes:
    return msgspec.json.encode(records, order="sorted")
