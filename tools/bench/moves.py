"""What is said of many streams, of a change and of none: false discoveries, missed means, false claims, and delays.

`python -m tools.bench.moves [--quick]`, seeded.
"""

import argparse
import itertools
import sys

import numpy as np

from auditors.metrics.intervals import Interval
from auditors.streams import drift, moves
from auditors.streams.drift import DriftSettings
from tools.simulations import drift as simulation
from tools.simulations.stream_bank import DetectorBank

STREAMS, PLANTED, AUDITS = 20, 5, 1500


def false_discoveries(runs: int, rate: float) -> tuple[float, float]:
    """Return the mean share of false streams in the list, and that of the planted streams in it, at the last audit.

    Of STREAMS streams at their limit .1, PLANTED are at .3 for the last third.
    """
    rng, size = np.random.default_rng(5), runs * STREAMS
    bank = DetectorBank(np.full(size, 0.1), np.full(size, 0.1))
    is_planted = np.tile(np.arange(STREAMS) < PLANTED, runs)
    for n in range(AUDITS):
        mean = np.where(is_planted & (n >= AUDITS * 2 // 3), 0.3, 0.1)
        evidence = bank.step((rng.random(size) < mean).astype(np.float64), np.ones(size))
    log_e = np.log(evidence).reshape(runs, STREAMS) - np.log(moves.spent(AUDITS))
    shares, powers = [], []
    for row in log_e:
        listed = [int(name) for name in moves.moved({str(i): float(x) for i, x in enumerate(row)}, STREAMS, rate)]
        n_true = sum(stream < PLANTED for stream in listed)
        shares.append((len(listed) - n_true) / max(1, len(listed)))
        powers.append(n_true / PLANTED)
    return float(np.mean(shares)), float(np.mean(powers))


def largest_mean_e_value(runs: int) -> float:
    """Return the mean, over runs at the limit, of the e-value at the audit at which it first reaches 2, or the last.

    A rule that stops for being large would find a mean over 1 if the e-value held at fixed times only.
    """
    rng = np.random.default_rng(29)
    bank, stopped = DetectorBank(np.full(runs, 0.1), np.full(runs, 0.1)), np.full(runs, np.nan)
    for n in range(1, AUDITS + 1):
        e = bank.step((rng.random(runs) < 0.1).astype(np.float64), np.ones(runs)) / moves.spent(n)
        stopped = np.where(np.isnan(stopped) & (e >= 2.0), e, stopped)
    return float(np.where(np.isnan(stopped), e, stopped).mean())


def since_change_missed(runs: int, later: int) -> tuple[float, float, float]:
    """Return the share of alarms whose interval since the change ever misses the new mean .3, from the alarm to `later`
    audits after it, with its mean width at the end, and the share of looks without an interval.
    """
    settings = DriftSettings(average_run_length=1000, tolerance=0.02)
    missed, widths, looks, without = 0, [], 0, 0
    for run in range(runs):
        rng = np.random.default_rng(1000 + run)
        detector = drift.start(Interval(0.08, 0.12), settings)
        after, misses = 0, False
        for n in itertools.count():
            detector = drift.step(detector, float(rng.random() < (0.1 if n < 150 else 0.3)), 1.0, settings)
            if not detector.alarm:
                continue
            bounds = moves.since_change(detector)
            looks, without, after = looks + 1, without + (bounds is None), after + 1
            misses |= bounds is not None and not bounds.lower <= 0.3 <= bounds.upper
            if after >= later:
                break
        missed += misses
        if bounds is not None:
            widths.append(bounds.upper - bounds.lower)
    return missed / runs, float(np.mean(widths)), without / looks


def claimed_smaller(runs: int, shift: float, audits: int) -> tuple[float, float]:
    """Return the share of streams ever shown to have moved by less than .1, with the mean audits until then."""
    settings = DriftSettings(average_run_length=1e9, tolerance=0.1, equivalence_margin=0.1)
    first = []
    for run in range(runs):
        rng, detector = np.random.default_rng(2000 + run), drift.start(Interval(0.38, 0.42), settings)
        for n in range(1, audits + 1):
            detector = drift.step(detector, float(rng.random() < 0.4 + shift), 1.0, settings, at=float(n))
            if detector.smaller is not None:
                first.append(n)
                break
    return len(first) / runs, float(np.mean(first)) if first else float("nan")


def families(runs: int, n_moved: int, run_length: float = 1000.0) -> tuple[float, float]:
    """Return the mean exchanges from a change to .2 of so many of 24 streams at .1 to the first alarm: at 24 A each, as
    before, and by all evidence together.
    """
    delays = []
    for on_mean in (False, True):
        rng = np.random.default_rng(41)
        calm = itertools.islice(simulation.bernoulli(rng, 24 * runs, 0.1), 300)
        means = np.tile(np.where(np.arange(24) < n_moved, 0.2, 0.1), runs)
        moved = ((rng.random(24 * runs) < means).astype(np.float64) for _ in itertools.count())
        lengths = simulation.family_run_lengths(
            itertools.chain(calm, moved), runs, 24, 0.1, run_length, 6000, on_mean=on_mean
        )
        late = lengths[lengths > 300] - 300
        delays.append(float(late.mean()))
    return delays[0], delays[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the runs")
    scale = 1 if parser.parse_args().quick else 4
    lines = [
        f"e-BH at 5 %, 5 of 20 streams move: false share, listed of those: {false_discoveries(100 * scale, 0.05)}",
        f"mean e-value where it is stopped for being 2: {largest_mean_e_value(2500 * scale):.3f}",
        f"since the change: ever missed, width, looks without: {since_change_missed(50 * scale, 300)}",
        f"shown smaller than .1: shift 0, audits until: {claimed_smaller(10 * scale, 0.0, 3000)}",
        f"shown smaller than .1 though it is .1, share: {claimed_smaller(25 * scale, 0.1, 2000)[0]}",
        *(f"{n} of 24 streams move, delay at 24 A each and together: {families(25 * scale, n)}" for n in (1, 4, 12)),
    ]
    for line in lines:
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
