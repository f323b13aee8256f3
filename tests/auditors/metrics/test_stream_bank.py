"""The vectorised bank does, stream by stream, what the plain recursions do."""

import random

import numpy as np
import pytest

from auditors.metrics import sequential
from auditors.metrics.sequential import BETS, ConfidenceSums, log_mean_evidence, shiryaev_roberts_step
from tools.simulations.stream_bank import DetectorBank, EstimateBank


def test_detectors_agree_with_the_plain_recursion() -> None:
    """Three streams with their own limits, weights and numbers of audits, 500 steps: the same mean of R."""
    rng = random.Random(1)
    lower, upper = [0.1, 0.3, 0.5], [0.2, 0.45, 0.5]
    bank = DetectorBank(np.array(lower), np.array(upper))
    sides = [([0.0] * len(BETS), [0.0] * len(BETS)) for _ in lower]
    found = np.zeros(3)
    for _ in range(500):
        y = [rng.random() * 0.8 for _ in lower]
        weight = [rng.choice([1.0, 0.25]) for _ in lower]
        starts = [rng.choice([1, 5]) for _ in lower]
        found = bank.step(np.array(y), np.array(weight), np.array(starts, dtype=np.float64))
        sides = [
            (
                shiryaev_roberts_step(rising, y[i], upper[i], weight[i], starts[i]),
                shiryaev_roberts_step(falling, 1 - y[i], 1 - lower[i], weight[i], starts[i]),
            )
            for i, (rising, falling) in enumerate(sides)
        ]

    assert np.log(found) == pytest.approx([log_mean_evidence(*both) for both in sides], rel=1e-9)


def test_estimates_agree_with_the_plain_recursion() -> None:
    """Sums and bounds of three streams are those of the same values one by one."""
    rng = random.Random(2)
    bank, plain = EstimateBank(3), [ConfidenceSums()] * 3
    for _ in range(300):
        y, weight = [rng.random() for _ in plain], [rng.choice([1.0, 0.1]) for _ in plain]
        bank.step(np.array(y), np.array(weight))
        plain = [sequential.add(sums, y[i], weight[i]) for i, sums in enumerate(plain)]
    lower, upper = bank.bounds()

    for i, sums in enumerate(plain):
        stream = bank.stream(i)
        for name in ConfidenceSums.__struct_fields__:
            assert getattr(stream, name) == pytest.approx(getattr(sums, name), rel=1e-9, abs=1e-9)
        bounds = sequential.interval(sums)
        assert (lower[i], upper[i]) == pytest.approx((bounds.lower, bounds.upper), abs=1e-9)
