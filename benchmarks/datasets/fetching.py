"""Fetches a published data set: from its pinned upstream, a mirror, or a file that the user got; all of it verified."""

import asyncio
import csv
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec

from auditors.clients.single_request import is_http_url
from benchmarks.datasets import by_hand
from benchmarks.datasets.published import cached, demand, noted, state
from benchmarks.datasets.spec import LARGEST_BYTES, MIRROR_VARIABLE, DatasetSpec, SourceFile, canonical_json
from benchmarks.errors import DatasetError

MOST_REDIRECTS = 5
ANSWER_SECONDS = 30.0
"""Seconds within which a server must begin to answer, redirects included."""
PIECE_BYTES, PIECE_SECONDS = 64 * 1024, 60.0
"""Bytes that must arrive in each span of so many seconds; a server that sends a byte a second is given up."""

Progress = Callable[[int, int | None], None]
"""Called with bytes received and bytes expected of the file in hand (None when the server does not say)."""


def fetch(
    spec: DatasetSpec, *, mirror: str | None = None, data_dir: Path | None = None, on_progress: Progress | None = None
) -> Path:
    """Fetch, verify and store a data set, unless a good copy is there; return the path of the verified content.
    Verified files are kept until the last is there, so a broken connection costs only the rest. `mirror`: directory or
    URL with every `mirror_path`, for a set got by hand also the file or its archive; default $BIASGATE_DATASETS_MIRROR,
    else the upstream. Raises DatasetError; nothing unverified is left under the final name.
    """
    target = cached(spec, data_dir)
    try:
        if state(spec, data_dir).state == "present":
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        source = _Source(spec, mirror or os.environ.get(MIRROR_VARIABLE), target.parent, on_progress)
        raw = {file.key: source.unpacked(file) for file in spec.files}
        for part in target.parent.glob("*.part"):
            part.unlink()
        part = target.with_name(target.name + ".part")
        content = _content(spec, raw)
        part.write_bytes(content)
        if not spec.content_sha256:
            _note(spec, noted(target), hashlib.sha256(content).hexdigest())
        part.replace(target)
    except OSError as exc:
        raise DatasetError(f"{spec.name}: {target.parent} cannot be used: {exc.strerror or exc}") from exc
    return target


def _note(spec: DatasetSpec, path: Path, digest: str) -> None:
    """Note the hash of what was fetched. Raises DatasetError where a first download had another one."""
    if spec.is_trusted_first and path.is_file():
        what = f"{spec.name}: not the content of the first download, whose hash is in {path}"
        demand(path.read_text(), digest, what, "nothing was kept; remove that file to trust the new one")
    path.write_text(digest)


def _content(spec: DatasetSpec, raw: Mapping[str, bytes]) -> bytes:
    try:
        content = canonical_json(spec.normalise(raw))
    except (msgspec.DecodeError, csv.Error, LookupError, TypeError, ValueError) as exc:
        raise DatasetError(
            f"{spec.name}: what was fetched has another shape than expected ({exc}): nothing was kept"
        ) from exc
    if spec.content_sha256:
        digest, what = hashlib.sha256(content).hexdigest(), f"{spec.name}: the content differs from the pinned one"
        demand(spec.content_sha256, digest, what, "nothing was kept")
    return content


def git_blob_id(content: bytes) -> str:
    """The id git gives a file: sha1 of a header with the length, and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Source:
    def __init__(self, spec: DatasetSpec, mirror: str | None, folder: Path, on_progress: Progress | None) -> None:
        self._known = spec
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
        if (url := file.url) is None:
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
            content = by_hand.read_file(self._known.name, original)
            _verify_upstream(file, content, str(original))
            return content
        content = by_hand.read_file(self._known.name, path)
        _verify_mirror(file, content, str(path))
        return _unpack(str(path), content)

    def _downloaded(self, url: str, part: Path, verify: Callable[[bytes], None]) -> bytes:
        """Return the verified bytes of `part`, downloaded or continued unless complete; discard a wrong file."""
        if part.is_file():
            with suppress(DatasetError):
                verify(content := part.read_bytes())
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
    digest = hashlib.sha256(content).hexdigest()
    demand(file.mirror_sha256, digest, f"{where}: not the pinned file (sha256)", "it was discarded")


def _verify_upstream(file: SourceFile, content: bytes, where: str) -> None:
    """Every id that is known must agree; a file without any is accepted only where the first download is trusted."""
    if file.is_trusted_first:
        return
    if file.git_blob is None and file.sha256 is None:
        raise DatasetError(f"{where}: no id of this file is pinned, so it cannot be verified: use a --mirror")
    if file.git_blob is not None:
        what = f"{where}: not the pinned file (git blob id)"
        demand(file.git_blob, git_blob_id(content), what, "it was discarded")
    if file.sha256 is not None:
        digest = hashlib.sha256(content).hexdigest()
        demand(file.sha256, digest, f"{where}: not the pinned file (sha256)", "it was discarded")


def _unpack(where: str, content: bytes) -> bytes:
    if not where.endswith(".gz"):
        return content
    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(content)).read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise DatasetError(f"{where}: cannot be unpacked: {exc}") from exc
    if len(unpacked) > LARGEST_BYTES:
        raise DatasetError(f"{where}: unpacks to more than {LARGEST_BYTES} bytes: this is another file")
    return unpacked


def _download(url: str, part: Path, on_progress: Progress | None) -> bytes:
    """Download into `part` or continue it, unverified. Raises DatasetError (too large: nothing is kept) or OSError."""
    have = part.stat().st_size if part.is_file() else 0
    if not is_http_url(url):
        raise DatasetError(f"{url} is not a valid URL: give a --mirror as http://HOST/PATH")
    try:
        asyncio.run(_received(url, part, have, on_progress))
    except _TooLargeError:
        part.unlink(missing_ok=True)
        raise DatasetError(f"{url}: more than {LARGEST_BYTES} bytes: this is another file") from None
    except httpx.HTTPStatusError as exc:
        raise DatasetError(f"{url}: the server answered {exc.response.status_code}: try a --mirror") from exc
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as exc:
        why = str(exc) or ("it is too slow" if isinstance(exc, TimeoutError) else type(exc).__name__)
        raise DatasetError(
            f"{url} cannot be reached or broke off ({why}): "
            "try again, what has come is kept and continued, or use --mirror DIR_OR_URL"
        ) from exc
    return part.read_bytes()


class _TooLargeError(Exception):
    """A file of more than `LARGEST_BYTES`."""


async def _received(url: str, part: Path, have: int, on_progress: Progress | None) -> None:
    # An encoded body cannot be continued at a byte of the decoded file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    async with (
        asyncio.timeout(ANSWER_SECONDS) as limit,
        _client() as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        if have and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is left to come
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        await _write(response, part, have if resumed else 0, on_progress, limit)


def _client() -> httpx.AsyncClient:
    """Return a client that follows a few redirects, over TLS only, and sends no credentials; callers verify."""
    requests = 0

    async def require_tls(request: httpx.Request) -> None:
        nonlocal requests
        requests += 1
        if requests > 1 and request.url.scheme != "https":
            raise httpx.UnsupportedProtocol(f"it redirects to {request.url.host} without TLS, which is not followed")

    hooks = {"request": [require_tls]}
    return httpx.AsyncClient(
        follow_redirects=True,
        max_redirects=MOST_REDIRECTS,
        event_hooks=hooks,
        timeout=None,  # noqa: S113 - `_received` limits the whole
    )


async def _write(
    response: httpx.Response, part: Path, have: int, on_progress: Progress | None, limit: asyncio.Timeout
) -> None:
    """Append the body to `part`, and move the time limit on with every piece that has come."""
    now = asyncio.get_running_loop().time
    length = response.headers.get("content-length")
    encoded = "content-encoding" in response.headers
    total = have + int(length) if length and not encoded else None
    piece = PIECE_BYTES
    with part.open("ab" if have else "wb") as file:
        async for chunk in response.aiter_bytes():
            have += len(chunk)
            if max(have, total or 0) > LARGEST_BYTES:
                raise _TooLargeError
            file.write(chunk)
            piece += len(chunk)
            if piece >= PIECE_BYTES:
                piece = 0
                limit.reschedule(now() + PIECE_SECONDS)
            if on_progress is not None:
                on_progress(have, total)
