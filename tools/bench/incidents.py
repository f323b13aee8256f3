"""What a time of low sampling rates does to a live series, by four ways to weigh it: `python -m tools.bench.incidents`.

Two strata: a fifth of the requests at rate .2 with mean .25, the others at .05 with mean .10. In the incident all rates
fall to the same share of that; then they come back. Zeros and ones, seeded. The figures are in
docs/evidence/incidents.md, the decision is ADR 13.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from auditors.metrics.weighting import MAX_MOMENT_WEIGHT, bounded_weight
from tools.simulations.drift import Floats
from tools.simulations.stream_bank import DetectorBank, EstimateBank

RATES = np.array([0.2, 0.05])
MEANS = np.array([0.25, 0.10])
OF_TRAFFIC = np.array([0.2, 0.8])
OF_SAMPLE = RATES * OF_TRAFFIC / (RATES @ OF_TRAFFIC)
MEAN = float(MEANS @ OF_TRAFFIC)

BEFORE = 2000
"""Audits before the incident."""
INCIDENT = 1600
"""Audits that the incident's requests would have given at full rates."""
LOOKS = (0, 200, 1000, 4000, 16_000)
"""Audits after the incident at which is looked."""
RUN_LENGTH = 100_000.0


class Weights(NamedTuple):
    """Of one exchange with a given probability, at a moment when rates had a given factor."""

    of_mean: Floats
    relative: Floats
    """What the smallest so far is divided by, for bounds and detectors."""


Method = Callable[[Floats, float], Weights]


def unbounded(probability: Floats, factor: float) -> Weights:
    """Horvitz-Thompson, and bounds by the smallest probability ever."""
    return Weights(1.0 / probability, probability)


def truncated(probability: Floats, factor: float) -> Weights:
    """No probability counts as less than an eighth of that at full rates."""
    at_least = np.maximum(probability, probability / factor / MAX_MOMENT_WEIGHT)
    return Weights(1.0 / at_least, at_least)


def by_epoch(probability: Floats, factor: float) -> Weights:
    """Within a moment by the inverse probability; every audit counts alike whatever its moment's factor."""
    return Weights(factor / probability, probability / factor)


def chosen(probability: Floats, factor: float) -> Weights:
    """Bounds and detectors by epoch, the mean truncated: auditors.streams.state."""
    return Weights(np.array([bounded_weight(float(one), factor) for one in probability]), probability / factor)


METHODS: dict[str, Method] = {
    "unbounded": unbounded,
    "truncated at 8": truncated,
    "by epoch": by_epoch,
    "chosen": chosen,
}


class Look(NamedTuple):
    after: int
    bias: float
    missed: float
    """Share of the runs whose bounds do not hold the mean of all requests so far."""
    effective: float
    """Kish's effective n, of the audits."""
    width: float


class Outcome(NamedTuple):
    looks: list[Look]
    ever_missed: float
    """Share of the runs whose bounds missed at any look, one every 50 audits."""
    delay: float
    """Audits from a rise of .10, 500 audits after the incident, to the alarm."""


def simulated(method: Method, factor: float, shift: float, n_runs: int, seed: int) -> Outcome:
    """One method through one incident.

    Args:
        method: how to weigh.
        factor: of all rates in the incident.
        shift: of all means in it.
        n_runs: independent repetitions.
        seed: of the scores.
    """
    rng = np.random.default_rng(seed)
    bank, least = EstimateBank(n_runs), np.ones(n_runs)
    w, ww, wy = np.zeros((3, n_runs))
    ever, looks = np.zeros(n_runs, dtype=bool), []
    in_incident = max(1, round(INCIDENT * factor))
    total = BEFORE + in_incident + LOOKS[-1]
    for step in range(1, total + 1):
        is_low = BEFORE < step <= BEFORE + in_incident
        now, moved = (factor, shift) if is_low else (1.0, 0.0)
        y, probability = drawn(rng, n_runs, now, moved)
        weights = table(method, now, probability)
        bank.step(y, np.minimum(1.0, least / weights.relative))
        least = np.minimum(least, weights.relative)
        w += weights.of_mean
        ww += weights.of_mean**2
        wy += weights.of_mean * y
        after = step - BEFORE - in_incident
        if step % 50 and after not in LOOKS:
            continue
        true = true_mean(step, in_incident, shift)
        lower, upper = bank.bounds()
        value = wy / w
        missed = (np.minimum(lower, value) > true) | (np.maximum(upper, value) < true)
        ever |= missed
        if after in LOOKS:
            effective = float(np.mean(w * w / ww)) / step
            width = float(np.mean(upper - lower))
            looks.append(Look(after, float(value.mean()) - true, float(missed.mean()), effective, width))
    return Outcome(looks, float(ever.mean()), delay(method, factor, n_runs, seed))


def drawn(rng: np.random.Generator, n_runs: int, factor: float, moved: float) -> tuple[Floats, Floats]:
    """A sampled score of each run, and its inclusion probability."""
    stratum = (rng.random(n_runs) >= OF_SAMPLE[0]).astype(int)
    return (rng.random(n_runs) < MEANS[stratum] + moved).astype(np.float64), RATES[stratum] * factor


def table(method: Method, factor: float, probability: Floats) -> Weights:
    """The method's weights, worked out once for each stratum."""
    of_mean, relative = method(RATES * factor, factor)
    is_first = probability == probability.dtype.type(RATES[0] * factor)
    return Weights(np.where(is_first, of_mean[0], of_mean[1]), np.where(is_first, relative[0], relative[1]))


def true_mean(step: int, in_incident: int, shift: float) -> float:
    """Of all requests so far, in audits at full rates."""
    low = min(max(step - BEFORE, 0), in_incident) / in_incident * INCIDENT
    others = min(step, BEFORE) + max(0, step - BEFORE - in_incident)
    return MEAN + shift * low / (low + others)


def delay(method: Method, factor: float, n_runs: int, seed: int) -> float:
    """Mean audits to the alarm, limits .02 around the mean, once the incident is 500 audits past."""
    rng = np.random.default_rng(seed + 1)
    bank = DetectorBank(np.full(n_runs, MEAN - 0.02), np.full(n_runs, MEAN + 0.02))
    least, found = np.full(n_runs, float(method(RATES, 1.0).relative.min())), np.zeros(n_runs)
    for step in range(-500 - max(1, round(INCIDENT * factor)), 50_000):
        now = factor if step < -500 else 1.0
        y, probability = drawn(rng, n_runs, now, 0.1 if step >= 0 else 0.0)
        relative = table(method, now, probability).relative
        alarmed = bank.step(y, np.minimum(1.0, least / relative)) >= RUN_LENGTH
        least = np.minimum(least, relative)
        found[alarmed & (found == 0)] = max(step, 0) + 1
        if found.all():
            break
    return float(np.where(found == 0, 50_000, found).mean())


def rows(n_runs: int) -> Iterator[str]:
    for factor in (1 / 8, 1 / 64, 2.0**-10, 1e-6):
        for shift in (0.0, 0.2):
            name = f"rates at {factor:.3g}" + (", means .20 higher meanwhile" if shift else ", same means")
            yield f"\n{name}\n| weights | " + " | ".join(f"after {after}" for after in LOOKS) + " | ever | delay |"
            yield "|---" * (len(LOOKS) + 3) + "|"
            for title, method in METHODS.items():
                found = simulated(method, factor, shift, n_runs, 7)
                cells = [
                    f"{look.bias:+.3f}, {look.missed:.1%}, {look.effective:.0%}, {look.width:.3f}"
                    for look in found.looks
                ]
                yield f"| {title} | " + " | ".join(cells) + f" | {found.ever_missed:.1%} | {found.delay:.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    print("bias, share of runs whose 95 % bounds miss the mean of all requests, effective n of the audits, width")
    for line in rows(parser.parse_args().runs):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
