"""Files of `biasgate ingest`, plain and compressed."""

import gzip
import json
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.features.ingest.cli import _batches, _opened, _Sending

LINES = [json.dumps({"id": str(number), "request": {}, "response": {}}).encode() for number in range(5)]
TEXT = b"\n".join(LINES) + b"\n"


def lines_of(path: Path) -> list[bytes]:
    sending = _Sending("http://127.0.0.1:9", None, None)
    with _opened(str(path)) as file:
        return [line.body for batch in _batches(file, sending) for line in batch]


@pytest.mark.parametrize(
    "content", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:])], ids=range(3)
)
def test_lines(tmp_path: Path, content: bytes) -> None:
    """A file is gzip by its first bytes, whatever its name, and all members of it are read."""
    path = tmp_path / "log"
    path.write_bytes(content)

    assert lines_of(path) == LINES


@pytest.mark.parametrize("content", [gzip.compress(TEXT)[:-9], gzip.compress(TEXT) + b"more"], ids=["cut", "garbage"])
def test_a_broken_gzip(tmp_path: Path, content: bytes) -> None:
    """One line says how far it could be read."""
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    with pytest.raises(GatewayError, match=r"cannot be read behind line \d+: .*: run it again") as caught:
        lines_of(path)

    assert "\n" not in str(caught.value)
