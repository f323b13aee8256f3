"""Writes files, each whole or not at all, to an export's address: a directory, or any address that fsspec knows."""

import io
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import IO, Any

import msgspec

from auditors.addresses import mask_addresses, mask_url
from auditors.json_errors import UNREADABLE
from gateway.errors import ConfigError, ExportError

VERSION = 2
"""Version of the layout: folders, names and columns."""
MARKER = "_biasgate.json"
LONGEST_MARKER_BYTES = 4096
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss"})
S3_READ_SECONDS = 20
UNFINISHED = "_unfinished"
"""Folder of files that are being written. Readers of Parquet pass over names that begin so."""
_ANY = frozenset({"FSSPEC_*"})
_GOOGLE = frozenset(
    {"GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "GCSFS_*", "GCE_METADATA_*", "STORAGE_EMULATOR_HOST", "NO_GCE_CHECK"}
)
_AZURE = frozenset({"AZURE_*", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET"})
_HADOOP = frozenset({"HADOOP_*", "JAVA_HOME", "CLASSPATH", "ARROW_LIBHDFS_DIR", "KRB5CCNAME", "KRB5_CONFIG"})
_BY_SCHEME = {
    **dict.fromkeys(("s3", "s3a"), frozenset({"AWS_*", "BOTO_CONFIG"})),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), _AZURE),
    **dict.fromkeys(("hdfs", "webhdfs", "arrow_hdfs"), _HADOOP),
    "oss": frozenset({"OSS_*"}),
    "hf": frozenset({"HF_*"}),
}


def require_installed(url: str) -> None:
    """Raises ConfigError where the packages that write to `export.url` are not installed. Asks nothing there."""
    if find_spec("pyarrow") is None or find_spec("fsspec") is None:
        raise ConfigError('an export needs pyarrow and fsspec: pip install "biasgate[export]", or leave it out')
    from fsspec.registry import known_implementations, registry

    for part in url.split("::"):
        scheme, separator, _ = part.partition("://")
        if not (separator or "::" in url) or scheme in registry:
            continue
        if scheme not in known_implementations:
            raise ConfigError(f'export.url "{mask_url(url)}": fsspec knows no protocol "{scheme}"')
        implementation = known_implementations[scheme]
        package = implementation["class"].partition(".")[0]
        if find_spec(package) is None:
            remedy = implementation.get("err", f"install {package}")
            raise ConfigError(f'export.url "{mask_url(url)}" needs the package {package}: {remedy}')


class _Marker(msgspec.Struct):
    export: str
    layout: int


class Address:
    """An opened address. Its calls block, so call them off any shared event loop. All of them raise ExportError."""

    def __init__(self, address: str) -> None:
        self._shown = mask_url(address)
        with self.wrap_errors():
            try:
                from fsspec.core import url_to_fs
            except ModuleNotFoundError as exc:
                raise ExportError('exporting needs fsspec and pyarrow: pip install "biasgate[export]"') from exc
            self._files, root = url_to_fs(address, **_options(address))
            self._root = str(root).rstrip("/")

    def __str__(self) -> str:
        return self._shown

    def export_id(self) -> str | None:
        """Reads the id of the export that writes here; None where there is not yet an export."""
        with self.wrap_errors():
            try:
                content: bytes = self._files.cat_file(self._path(MARKER), end=LONGEST_MARKER_BYTES)
            except FileNotFoundError:
                return None
        try:
            marker = msgspec.json.decode(content, type=_Marker)
        except UNREADABLE as exc:
            raise ExportError(f"{self._shown}/{MARKER} is not ours: name an empty directory") from exc
        if marker.layout != VERSION:
            raise ExportError(
                f"{self._shown} has layout {marker.layout}, this biasgate writes {VERSION}: name an empty directory"
            )
        return marker.export

    def claim(self, export_id: str) -> None:
        """Claim the address, which must be empty, for this export. Raises ExportError."""
        with self.wrap_errors():
            self._files.invalidate_cache()
            try:
                there = [str(name).rsplit("/", 1)[-1] for name in self._files.ls(self._root, detail=False)]
            except (FileNotFoundError, NotADirectoryError):
                there = []
        if left := sorted(set(there) - {UNFINISHED, ""}):
            raise ExportError(f'{self._shown} has "{left[0]}", which no export of this store wrote: name an empty one')
        begun = self.create_file(MARKER)
        try:
            begun.file.write(msgspec.json.encode(_Marker(export_id, VERSION)))
            begun.finish()
        except BaseException:
            begun.abandon()
            raise

    def forget_unfinished(self) -> None:
        """Removes what a writer that died had begun. One that lives on fails, and its files do not appear."""
        with self.wrap_errors(), suppress(FileNotFoundError):
            self._files.rm(self._path(UNFINISHED), recursive=True)

    def create_file(self, name: str) -> "UnfinishedFile":
        """Create a hidden file that takes `name` at `finish`; the caller calls `finish` or `abandon`."""
        return UnfinishedFile(self, self._files, self._path(UNFINISHED), self._path(name))

    def remove(self, name: str) -> None:
        with self.wrap_errors(), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def wrap_errors(self) -> Iterator[None]:
        """Turns whatever goes wrong into an ExportError: every file system raises its own errors."""
        try:
            yield
        except ExportError:
            raise
        except Exception as exc:
            detail = mask_addresses(" ".join(str(exc).split())) or type(exc).__name__
            raise ExportError(f"export to {self._shown}: {detail[:300]}") from exc


def _options(address: str) -> dict[str, Any]:
    """Return options for fsspec's packages: a silent S3 server would be waited for 25 minutes (5 attempts of 5)."""
    from fsspec.config import conf

    if "config_kwargs" in conf.get("s3", {}):
        return {}
    limits = {"connect_timeout": 5, "read_timeout": S3_READ_SECONDS, "retries": {"total_max_attempts": 1}}
    return {protocol: {"config_kwargs": limits} for protocol in ("s3", "s3a") if f"{protocol}://" in address}


class UnfinishedFile:
    """A file that has its own name only once it is finished."""

    def __init__(self, address: Address, files: Any, folder: str, path: str) -> None:
        self._address, self._files, self._path = address, files, path
        self._hidden = f"{folder}/{uuid.uuid4().hex}"
        with address.wrap_errors():
            self._make_folder(folder)
            self.file: IO[bytes] = files.open(self._hidden, "wb")

    def finish(self) -> None:
        """Moves the file to its name, in place of an older file there."""
        with self._address.wrap_errors():
            self.file.flush()
            with suppress(AttributeError, io.UnsupportedOperation, OSError):  # some file systems refuse it
                os.fsync(self.file.fileno())
            self.file.close()
            self._make_folder(self._path.rpartition("/")[0])
            self._files.mv(self._hidden, self._path)

    def _make_folder(self, folder: str) -> None:
        """Creates the folder, but not on object stores: s3fs would make the bucket of a mistyped name."""
        protocols = self._files.protocol
        if OBJECT_STORES.isdisjoint([protocols] if isinstance(protocols, str) else protocols):
            self._files.makedirs(folder, exist_ok=True)

    def abandon(self) -> None:
        with suppress(Exception):
            self.file.close()
        with suppress(Exception):
            self._files.rm_file(self._hidden)


def environment_variables_of(url: str) -> frozenset[str]:
    """Return variables that an address's file systems, chained or not, read; a trailing "*" matches any rest."""
    schemes = [part.partition("://")[0].lower() for part in url.split("::")]
    return _ANY.union(*(_BY_SCHEME.get(scheme, frozenset()) for scheme in schemes))
