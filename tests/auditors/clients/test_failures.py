"""What a refused request is counted as, and how long to wait before the next attempt."""

import random

import pytest

from auditors.clients.failures import LONGEST_PAUSE_SECONDS, failure, pause_seconds
from auditors.types import FailureKind


class TestFailure:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [(400, "rejected"), (401, "rejected"), (404, "rejected"), (429, "unavailable"), (500, "unavailable")],
    )
    def test_kinds(self, status: int, kind: FailureKind) -> None:
        """429 and 5xx pass; another 4xx is the server's answer."""
        found = failure(status, b'{"error": {"message": "no\\n system role"}}')

        assert (found.kind, found.status_code) == (kind, status)
        assert str(found) == f"status {status}: no system role"

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"", "no message"),
            (b"oops", "oops"),
            (b'{"message": "m"}', "m"),
            (b'{"error": "e"}', "e"),
            (b"[1]", "[1]"),
            (b"\xff", "\ufffd"),
            (b"x" * 999, "x" * 300),
        ],
    )
    def test_the_servers_words(self, body: bytes, words: str) -> None:
        """Whatever the server says is kept, in one line and cut."""
        assert str(failure(400, body)) == f"status 400: {words}"


class TestPauseSeconds:
    def test_retry_after_is_honoured(self) -> None:
        """The server's own wait is taken, up to a limit; a date or nonsense is not a number of seconds."""
        rng = random.Random(1)

        assert pause_seconds(1, {"retry-after": "3"}, rng) == 3.0
        assert pause_seconds(1, {"retry-after": "9999"}, rng) == LONGEST_PAUSE_SECONDS
        assert pause_seconds(1, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, rng) < 1
        assert pause_seconds(1, {"retry-after": "nan"}, rng) < 1
        assert pause_seconds(1, {"retry-after": "inf"}, rng) == LONGEST_PAUSE_SECONDS
        assert pause_seconds(1, {"retry-after": "-5"}, rng) == 0.0

    def test_pauses_double_with_jitter(self) -> None:
        """Attempt k waits between a half and the whole of 2^k quarters of a second."""
        rng = random.Random(1)

        for attempt in (1, 2, 3):
            assert all(0.125 <= pause_seconds(attempt, {}, rng) / 2**attempt <= 0.25 for _ in range(20))
