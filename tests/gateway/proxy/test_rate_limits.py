"""A key's limiter: spent at once or over the minute, once for all processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.admission import TokenBucket, shared_bucket

TAKING = """
import json, pathlib, sys, time
from gateway.proxy.admission import shared_bucket
bucket = shared_bucket(int(sys.argv[2]), "app", pathlib.Path(sys.argv[1]))
print(json.dumps(sum(bucket.take(time.perf_counter()) == 0.0 for _ in range(int(sys.argv[3])))))
"""


class TestTokenBucket:
    def test_allowance(self) -> None:
        """A minute's worth passes at once, then one for each that comes back."""
        bucket = TokenBucket(2)

        assert [bucket.take(now) for now in (1.0, 1.0)] == [0.0, 0.0]
        assert bucket.take(1.0) == pytest.approx(30.0)
        assert bucket.take(32.0) == 0.0
        assert bucket.take(32.0) == pytest.approx(29.0)

    def test_what_is_refused_costs_nothing(self) -> None:
        """A client that goes on asking is let in as soon as one that waited."""
        bucket = TokenBucket(1)
        bucket.take(0.0)

        assert [bucket.take(second) > 0 for second in range(1, 60)] == [True] * 59
        assert bucket.take(60.0) == 0.0

    @given(
        st.integers(1, 600),
        st.floats(0, 1e7),
        st.lists(st.floats(0, 30, allow_subnormal=False), min_size=1, max_size=200),
    )
    def test_never_more_than_allowed(self, per_minute: int, start: float, gaps: list[float]) -> None:
        """Whatever the pace, no more pass than the full bucket and what came back since; and what it says holds."""
        bucket, now, passed = TokenBucket(per_minute), start, 0
        for gap in gaps:
            now += gap
            if wait := bucket.take(now):
                assert 0 < wait <= 60 / per_minute + 1e-3
            else:
                passed += 1
        assert passed <= per_minute + (now - start) * per_minute / 60 + 1e-3

    def test_time_of_another_boot(self, tmp_path: Path) -> None:
        """A file left by a machine that ran longer does not lock its keys out."""
        old = shared_bucket(1, "app", tmp_path)
        old.take(1e9)

        assert shared_bucket(1, "app", tmp_path).take(10.0) == 0.0


class TestShared:
    def test_processes_share_one_allowance(self, tmp_path: Path) -> None:
        """Four processes that ask for all they can get, get one limiter between them, not four."""
        command = [sys.executable, "-c", TAKING, str(tmp_path), "100", "500"]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
        granted = sum(json.loads(process.communicate(timeout=50)[0]) for process in running)

        # What comes back while they run, and what one that was interrupted gives back, are on top of the hundred.
        assert 100 <= granted < 300

    def test_keys_have_their_own(self, tmp_path: Path) -> None:
        """One key's requests take nothing from another's."""
        app, other = (shared_bucket(1, name, tmp_path) for name in ("app", "../other"))

        assert [app.take(0.0), other.take(0.0)] == [0.0, 0.0]
        assert app.take(0.0) > 0
