"""Errors that the command line prints as one line: the benchmarks' as the gateway's, and those of files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.errors import BenchmarkError
from gateway.errors import GatewayError


@contextmanager
def as_gateway_errors() -> Iterator[None]:
    """Turns a BenchmarkError into a GatewayError with the same line."""
    try:
        yield
    except BenchmarkError as exc:
        raise GatewayError(str(exc)) from exc


def write_file(path: Path, content: bytes | str) -> None:
    """Writes a file, text as UTF-8. Raises GatewayError where it cannot be written."""
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as exc:
        raise GatewayError(f"{path}: cannot be written: {exc.strerror}") from exc
