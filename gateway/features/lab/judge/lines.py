"""JSON lines that people write: read whole, and each line decoded into a struct."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.text.user_files import read_utf8
from gateway.errors import GatewayError

T = TypeVar("T")


class LabelsError(GatewayError):
    """Labels that cannot be read, or numbers that do not go together."""


def read_file(path: Path, remedy: str) -> bytes:
    """Raises LabelsError with the remedy for a file that cannot be read or is not UTF-8."""
    try:
        return read_utf8(path)
    except OSError as exc:
        raise LabelsError(f"{path}: {exc.strerror}: {remedy}") from exc


def decoded_lines(name: str, content: bytes, type: type[T], remedy: str) -> Iterator[T]:
    """Yield each line of a file of this name. Raises LabelsError with its number and the remedy for a wrong one."""
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            yield msgspec.json.decode(line, type=type)
        except UNREADABLE as exc:
            raise LabelsError(f"{name}, line {number}: {exc}: {remedy}") from exc
