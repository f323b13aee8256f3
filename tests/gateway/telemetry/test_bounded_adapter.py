"""What a collector may do to its exporters: nothing that lasts, and nothing that fills memory."""

import gzip
import socket
import time
from collections.abc import Callable

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

import requests

from gateway.features.evaluations import otlp
from gateway.features.evaluations.bounded_adapter import LONGEST_BYTES
from tests.support.benchmarks.serving import answering


def sending(head: bytes, piece: bytes, pause: float) -> Callable[[socket.socket], None]:
    """Send a head, and then a piece after each pause, 200 times."""

    def send(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(200):
            connection.sendall(piece)
            time.sleep(pause)

    return send


def post(url: str) -> tuple[int, bytes]:
    """What the hook of a session hears."""
    heard: list[tuple[int, bytes]] = []
    session = otlp.session(lambda status, body: heard.append((status, body)))
    response = session.post(url, data=b"spans", headers={"x-key": "k"}, timeout=5)
    assert heard == [(response.status_code, response.content)]
    return heard[0]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: "])
def test_a_byte_at_a_time_ends_in_time(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """A read timeout would begin again with each byte, in the body and in the head."""
    monkeypatch.setattr(otlp, "EXPORT_SECONDS", 0.3)
    with (
        answering(sending(head, b"x", 0.02)) as url,
        pytest.raises(requests.exceptions.Timeout, match=r"within 0\.3 s"),
    ):
        post(url)


def test_a_long_answer_is_cut() -> None:
    """It was taken, whatever follows the status."""
    with answering(sending(b"HTTP/1.1 200 OK\r\n\r\n", bytes(65536), 0.0)) as url:
        assert post(url) == (200, bytes(LONGEST_BYTES))


def test_a_packed_failure() -> None:
    """A packed answer is unpacked, and a failure has its status; test_tracing.py reads what arrives."""
    packed = gzip.compress(b"done")
    head = b"HTTP/1.1 503 Busy\r\ncontent-encoding: gzip\r\nretry-after: 7\r\ncontent-length: %d\r\n\r\n"
    with answering(lambda connection: connection.sendall(head % len(packed) + packed)) as url:
        assert post(url) == (503, b"done")
