"""Live streams for tests, on [0, 1] or of a judge's favouritism."""

import random

from auditors.metrics.intervals import Interval
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey, StreamState, update
from auditors.types import Estimate, JudgeStamp, Measurement, Status

SETTINGS = DriftSettings(average_run_length=10_000, tolerance=0.02, reference_window=200)
KEY = StreamKey(auditor="judge", metric="favoritism", axis="gender", group="man", model="m", instrument="v1 j abc")


def favoritism(value: float | None, status: Status = "ok") -> Measurement:
    stamp = JudgeStamp(model="j", prompt_sha256="f" * 64)
    return Measurement(
        auditor="judge",
        auditor_version="1",
        metric="favoritism",
        axis="gender",
        group="man",
        value=value,
        status=status,
        judge=stamp,
    )


def run(scores: list[float], state: StreamState | None = None) -> StreamState:
    state = state or StreamState()
    for y in scores:
        state = update(state, y, 0.5, SETTINGS)
    return state


def bernoulli(rng: random.Random, mean: float, n: int) -> list[float]:
    return [float(rng.random() < mean) for _ in range(n)]


def interval_of(found: Estimate) -> Interval:
    """That of an estimate that must have one."""
    assert found.lower is not None
    assert found.upper is not None
    return Interval(found.lower, found.upper)
