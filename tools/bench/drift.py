"""What the drift alarm promises and costs: false alarms, delays, and time per audit, beside the usual ways.

`python -m tools.bench.drift [--quick]`, seeded; the figures are in docs/evidence/drift.md.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.identities import PAPER
from auditors.metrics.sequential import BETS
from auditors.metrics.weighting import WeightedSums, add
from auditors.nearest_identity import DISTANCE, SCORE
from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.reference import has_moved
from auditors.streams.state import StreamState
from auditors.text.identity import IDENTITIES
from auditors.types import Measurement
from gateway.store import exchanges
from gateway.store.database import Database
from tests.support.store.made import exchange, record
from tools.bench import drift_bounds as bounds
from tools.bench import other_detectors
from tools.simulations import drift as simulation
from tools.simulations.drift import Floats
from tools.simulations.stream_bank import DetectorBank, EstimateBank

STREAMS = 200
REFERENCE = 2000
WINDOW = 200


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def seconds_each(action: Callable[[int], object], count: int) -> float:
    """CPU time of one call, in seconds: the least of seven rounds, so that other programs do not count."""
    rounds = []
    for _ in range(7):
        started = time.process_time()
        for number in range(count):
            action(number)
        rounds.append((time.process_time() - started) / count)
    return min(rounds)


def cost(count: int) -> None:
    """Time of one audit: one stream with plain floats, 200 streams one by one, 200 streams in the NumPy bank."""
    settings = DriftSettings(reference_window=20)
    rng = np.random.default_rng(1)
    scores, ones = rng.random((512, STREAMS)), np.ones(STREAMS)
    watched = StreamState()
    for y in scores[:30, 0]:
        watched = live.update(watched, float(y), 0.5, settings)
    body = msgspec.json.encode(watched)
    decoder = msgspec.json.Decoder(StreamState)
    one = seconds_each(lambda i: live.update(watched, float(scores[i % 512, 0]), 0.5, settings), count)
    stored = seconds_each(lambda _: msgspec.json.encode(decoder.decode(body)), count)
    detectors = DetectorBank(np.full(STREAMS, 0.4), np.full(STREAMS, 0.6))
    estimates = EstimateBank(STREAMS)
    stepping = seconds_each(lambda i: detectors.step(scores[i % 512], ones), count)
    estimating = seconds_each(lambda i: estimates.step(scores[i % 512], ones), count)
    say("cost of an audit, microseconds of CPU")
    say(f"  one stream, plain floats            {one * 1e6:8.1f}")
    say(f"  its state from JSON and back        {stored * 1e6:8.1f}   ({len(body)} bytes)")
    say(f"  {STREAMS} streams one by one              {one * STREAMS * 1e6:8.1f}")
    say(
        f"  {STREAMS} streams in step, NumPy          {(stepping + estimating) * 1e6:8.1f}",
        end_of(stepping, estimating),
    )


def recorded(audits: int) -> None:
    """Where the time of a real recorded audit goes: arithmetic of the streams it moves, their JSON, the database."""
    say(f"a recorded audit of the embedding auditor on SQLite, {audits} audits, microseconds of CPU")
    with tempfile.TemporaryDirectory() as name:
        moved, whole, arithmetic = asyncio.run(_recorded(f"sqlite:///{name}/drift.db", audits))
    rng, state = np.random.default_rng(3), StreamState()
    settings = DriftSettings(reference_window=20)
    for y in rng.random(40):
        state = live.update(state, float(y), 0.5, settings)
    body, decoder = msgspec.json.encode(state), msgspec.json.Decoder(StreamState)
    stored = moved * seconds_each(lambda _: msgspec.json.encode(decoder.decode(body)), 2000)
    say(f"  whole transaction                   {whole * 1e6:8.1f}")
    say(f"  arithmetic of its {moved:4.1f} streams        {arithmetic * 1e6:8.1f}   ({100 * arithmetic / whole:.1f} %)")
    say(f"  their states from JSON and back     {stored * 1e6:8.1f}   ({100 * stored / whole:.1f} %)")


async def _recorded(url: str, audits: int) -> tuple[float, float, float]:
    """Streams moved an audit; CPU seconds of an audit in all, and in the arithmetic of its streams."""
    settings, rng = DriftSettings(reference_window=20), np.random.default_rng(1)
    database = await Database.open(url)
    batch = [exchange(request_id=f"request-{number}", served_model="m") for number in range(audits)]
    await exchanges.insert_batch(database, batch, {("other", "queued"): audits})
    spent, calls = 0.0, 0

    def timed(action: Callable[..., StreamState]) -> Callable[..., StreamState]:
        def call(*arguments: Any, **named: Any) -> StreamState:
            nonlocal spent, calls
            started = time.process_time()
            try:
                return action(*arguments, **named)
            finally:
                spent, calls = spent + time.process_time() - started, calls + 1

        return call

    plain = live.record, live.record_gap
    live.record, live.record_gap = timed(live.record), timed(live.record_gap)
    started = time.process_time()
    try:
        for one in batch:
            found = _distances(rng)
            await record(database, one, found, auditor="embedding", probability=0.05, settings=settings)
    finally:
        live.record, live.record_gap = plain
    whole = time.process_time() - started
    await database.close()
    return calls / audits, whole / audits, spent / audits


def _distances(rng: np.random.Generator) -> list[Measurement]:
    """What the embedding auditor measures on one exchange: a distance an identity, a score an axis."""
    stamp: dict[str, Any] = {"auditor": "embedding", "auditor_version": "1", "detail": {"embedder": "e"}}
    named = [(DISTANCE, identity.axis, identity.group) for identity in IDENTITIES]
    return [
        Measurement(metric=metric, axis=axis, group=group, value=float(rng.random()), **stamp)
        for metric, axis, group in [*named, *((SCORE, axis, None) for axis in PAPER.axes)]
    ]


def end_of(stepping: float, estimating: float) -> str:
    return f"  (detectors {stepping * 1e6:.1f}, estimates {estimating * 1e6:.1f})"


def told(name: str, lengths: Floats, at_most: int) -> None:
    error = lengths.std(ddof=1) / np.sqrt(len(lengths))
    cut = (lengths >= at_most).mean()
    say(f"  {name:58s} {lengths.mean():9.0f} +- {error:5.0f}   {100 * cut:3.0f} % cut at {at_most}")


def null(runs: int) -> None:
    """Mean run lengths without change, at the limits and off them."""
    say(f"mean run length without change, {runs} runs each (cutting only shortens the mean)")
    streams: list[tuple[str, simulation.Maker, float, float]] = [
        ("independent, mean at the limit .1", partial(simulation.bernoulli, mean=0.1), 0.1, 0.1),
        ("judge's scores, limits .08 to .12", partial(simulation.judged, mean=0.1), 0.08, 0.12),
        ("calm and wild spells, mean at the limit", partial(simulation.clustered, mean=0.1), 0.1, 0.1),
        (
            "mean wandering slowly, .08 to .12, within the limits",
            partial(simulation.wandering, mean=0.12, deepest=0.04),
            0.08,
            0.12,
        ),
        (
            "repeats .2, mean .1, limits .08 to .12: NOT promised",
            partial(simulation.sticky, mean=0.1, repeats=0.2),
            0.08,
            0.12,
        ),
        (
            "repeats .5, mean .1, limits .08 to .12: NOT promised",
            partial(simulation.sticky, mean=0.1, repeats=0.5),
            0.08,
            0.12,
        ),
    ]
    for run_length in (1000, 10_000):
        for name, maker, lower, upper in streams:
            at_most = 6 * run_length
            scores = maker(np.random.default_rng(7), runs)
            told(
                f"A = {run_length:6d}  {name}",
                simulation.run_lengths(scores, runs, lower, upper, run_length, at_most),
                at_most,
            )
        for on_mean in (False, True):
            families = max(20, runs // 4)
            scores = simulation.bernoulli(np.random.default_rng(11), 24 * families, 0.1)
            lengths = simulation.family_run_lengths(
                scores, families, 24, 0.1, run_length, 6 * run_length, on_mean=on_mean
            )
            rule = "A on the mean" if on_mean else "24 A each"
            told(f"A = {run_length:6d}  24 streams, {rule}, {families} runs", lengths, 6 * run_length)


def false_alarms_of_z(runs: int) -> None:
    """Share of null runs of 5,000 audits in which a sliding z test is ever significant; ours beside it."""
    say(f"null runs of 5,000 audits with at least one alarm, {runs} runs; reference: the {REFERENCE} audits before")
    for name, maker in (("zeros and ones", simulation.bernoulli), ("judge's scores", simulation.judged)):
        rng = np.random.default_rng(13)
        stream = maker(rng, runs, 0.1)
        before = np.stack(list(itertools.islice(stream, REFERENCE)), axis=1)
        after = np.stack(list(itertools.islice(stream, 5000)), axis=1)
        mean, sd = before.mean(axis=1, keepdims=True), before.std(axis=1, ddof=1, keepdims=True)
        for window, z in ((100, 3.0), (200, 3.0), (200, 2.58), (500, 3.0), (500, 2.58)):
            alarmed = (other_detectors.sliding_z(after, window, mean, sd) >= z).any(axis=1).mean()
            say(f"  {name}, window {window}, |z| >= {z:4.2f}: {100 * alarmed:5.1f} %")
        for run_length in (10_000, 100_000):
            alarmed = np.mean(
                [
                    ours(
                        before[run],
                        after[run],
                        DriftSettings(average_run_length=run_length, reference_window=REFERENCE),
                    )
                    for run in range(min(runs, 60))
                ]
            )
            say(f"  {name}, ours, A = {run_length}, {min(runs, 60)} runs: {100 * alarmed:5.1f} %")


def ours(before: Floats, after: Floats, settings: DriftSettings) -> bool:
    """Whether a whole live stream, reference window and all, alarms on these scores."""
    state = StreamState()
    for y in itertools.chain(before, after):
        state = live.update(state, float(y), 1.0, settings)
    return state.alarm


def delays(runs: int, null_audits: int) -> None:
    """Delay from .10 to .20 at a mean run length of 100,000, beside a z window and a CUSUM of that same run length."""
    say(f"audits from the change .10 -> .20 to the alarm, mean run length 100,000 without change, {runs} runs")
    for name, maker in (("zeros and ones", simulation.bernoulli), ("judge's scores", simulation.judged)):
        for lower, upper in ((0.10, 0.10), (0.08, 0.12)):
            rng = np.random.default_rng(3)
            stream = itertools.chain(itertools.islice(maker(rng, runs, 0.1), 500), maker(rng, runs, 0.2))
            lengths = simulation.run_lengths(stream, runs, lower, upper, 100_000, 10_000) - 500
            say(f"  {name}, ours, limits {lower:.2f} to {upper:.2f}: {spread(lengths[lengths > 0])}")
        quiet = np.stack(list(itertools.islice(maker(np.random.default_rng(17), 40, 0.1), null_audits)), axis=1)
        rng = np.random.default_rng(19)
        changed = np.concatenate(
            [
                np.stack(list(itertools.islice(maker(rng, runs, 0.1), 500)), axis=1),
                np.stack(list(itertools.islice(maker(rng, runs, 0.2), 4000)), axis=1),
            ],
            axis=1,
        )
        sd = float(quiet[:, :20_000].std())
        for window in (100, 200, 500):
            threshold = other_detectors.threshold_for(other_detectors.sliding_z(quiet, window, 0.1, sd), 1e5)
            crossed = other_detectors.first_crossings(
                other_detectors.sliding_z(changed, window, 0.1, sd)[:, 500:], threshold
            )
            say(f"  {name}, z over {window} at {threshold:.2f} (knows mean, SD): {spread(crossed[crossed > 0])}")
        threshold = other_detectors.threshold_for(other_detectors.cusum(quiet, 0.15), 1e5)
        crossed = other_detectors.first_crossings(other_detectors.cusum(changed, 0.15)[:, 500:], threshold)
        say(f"  {name}, CUSUM at {threshold:.2f} (knows .10 and .20, one side): {spread(crossed[crossed > 0])}")


def learning(runs: int) -> None:
    """References that go on learning beside final ones: run lengths, delays, and what becomes of a drift meanwhile."""
    say(f"references that go on learning, window 500, zeros and ones, {runs} runs (final: not looked at again)")
    both = (("final", 1.0), ("learning", 0.02))
    streams: list[tuple[str, simulation.Maker, int]] = [
        ("independent, mean .3", partial(simulation.bernoulli, mean=0.3), 1),
        ("calm and wild spells, mean .3", partial(simulation.clustered, mean=0.3), 1),
        ("mean wandering slowly, .26 to .30", partial(simulation.wandering, mean=0.3, deepest=0.04), 1),
        ("12 streams, half their scores in common, 12 A each", partial(simulation.bernoulli, mean=0.3), 12),
        ("repeats .2, mean .3: NOT promised", partial(simulation.sticky, mean=0.3, repeats=0.2), 1),
    ]
    for tolerance in (0.0, 0.02):
        for name, maker, size in streams:
            for kind, wanted in both:
                settings = settings_of(1000, tolerance, wanted)
                rng = np.random.default_rng(83)
                families = runs if size == 1 else max(20, runs // 4)
                scores = maker(rng, families * size)
                if size > 1:
                    scores = simulation.alike(scores, size, np.random.default_rng(89), 0.5)
                lengths = simulation.learned_run_lengths(scores, families, settings, 6000, n_streams=size)
                early = 100 * (lengths <= 1000).mean()
                told(f"A = 1000, tolerance {tolerance:.2f}, {kind:8s} {name}", lengths, 6000)
                say(f"      within A: {early:.1f} % of the runs")
    say("audits from a change to the alarm, A = 100,000, tolerance .02, window 500")
    for mean, change, after in ((0.5, 0.1, 20), (0.5, 0.1, 8000), (0.3, 0.1, 8000), (0.1, 0.1, 8000)):
        for kind, wanted in (("final", 1.0), ("learning", 0.05)):
            rng = np.random.default_rng(97)
            calm = itertools.islice(simulation.bernoulli(rng, runs, mean), 500 + after)
            scores = itertools.chain(calm, simulation.bernoulli(rng, runs, mean + change))
            lengths = (
                simulation.learned_run_lengths(scores, runs, settings_of(1e5, 0.02, wanted), after + 20_000) - after
            )
            found = lengths[(lengths > 0) & (lengths < 20_000)]
            words = spread(found) if len(found) else "none"
            say(f"  {mean} to {mean + change}, {after} audits after the window, {kind}: found {len(found)}, {words}")
    say("a change from .3 within the window of 500, tolerance .02: told, and found within 20,000 audits after it")
    for to in (0.4, 0.5, 0.6):
        rng = np.random.default_rng(101)
        halves = rng.random((runs, 500)) < np.repeat([0.3, to], 250)
        told_of = np.mean([moved(one[:250], one[250:]) for one in halves.astype(np.float64)])
        later = simulation.bernoulli(np.random.default_rng(103), runs, to)
        scores = itertools.chain(iter(halves.T.astype(np.float64)), later)
        lengths = simulation.learned_run_lengths(scores, runs, settings_of(1e5, 0.02, 0.05), 20_000)
        say(f"  to {to}: told {100 * told_of:.0f} %, found {100 * (lengths < 20_000).mean():.0f} %")
    say("after an acknowledgement of a false alarm, mean .3, A = 1,000, tolerance 0, window 500")
    for kind in ("same reference", "new level"):
        lengths = acknowledged(min(runs, 100), accept_new_level=kind == "new level")
        told(f"to the next alarm, {kind}", lengths, 6000)


def settings_of(run_length: float, tolerance: float, wanted: float) -> DriftSettings:
    return DriftSettings(
        average_run_length=run_length, tolerance=tolerance, reference_window=500, smallest_change=wanted
    )


def moved(early: Floats, late: Floats) -> bool:
    half, whole = WeightedSums(), WeightedSums()
    for y in early:
        half = add(half, float(y), 1.0)
    whole = half
    for y in late:
        whole = add(whole, float(y), 1.0)
    return has_moved(half, whole)


def acknowledged(runs: int, *, accept_new_level: bool) -> Floats:
    """Audits that are watched from an acknowledgement of a false alarm to the next one, of whole streams."""
    settings, lengths = settings_of(1000, 0.0, 0.1), []
    for run in range(runs):
        rng, state = np.random.default_rng(1000 + run), StreamState()
        for _ in range(20_000):
            state = live.update(state, float(rng.random() < 0.3), 1.0, settings)
            if state.alarm:
                break
        if not state.alarm:
            continue
        state, n = live.acknowledge(state, accept_new_level=accept_new_level), 0
        while not state.alarm and n < 6000:
            state = live.update(state, float(rng.random() < 0.3), 1.0, settings)
            n += state.detector is not None and state.detector.n_seen > 0
        lengths.append(float(n))
    return np.array(lengths)


def gaps(runs: int) -> None:
    """Requests until a gap of .10 between an 80 % and a 20 % group is found, A = 100,000, and what could be reached."""
    say(f"requests from the opening of a gap of .10 to the alarm, groups 80/20, A = 100,000 requests, {runs} runs")
    for name, (maker, law) in GAP_SCORES.items():
        for limit in (0.0, 0.02):
            rng = np.random.default_rng(23)
            streams = maker(rng, runs, 0.1), maker(rng, runs, 0.2)
            lengths = simulation.gap_run_lengths(rng, runs, streams, 0.2, limit, 1e5, 20_000)
            say(f"  {name}, limit {limit:.2f}: {spread(lengths)} (+- {lengths.std() / np.sqrt(runs):.0f})")
        rng = np.random.default_rng(37)
        known = [
            (other_detectors.known_bet_run_lengths((maker(rng, runs, 0.1), maker(rng, runs, 0.2)), runs, bet, 1e5), bet)
            for bet in BETS[-4:]
        ]
        lengths, bet = min(known, key=lambda one: one[0].mean())
        say(f"    one side, bet {bet:.2f} known, blocks of 4 + 1: {spread(lengths)}")
        others, group = law(0.1), law(0.2)
        null = bounds.nearest_without_gap(others, group, 0.2)
        information = bounds.information(others, group, null, 0.2)
        least = bounds.least_delay(others, group, null, 0.2, 1e5)
        say(
            f"    variances {others.variance:.3f} and {group.variance:.3f}; any detector: {least:.0f} or more; "
            f"information {information:.4f} a request, log(A) / information {np.log(1e5) / information:.0f}"
        )
    rng = np.random.default_rng(29)
    streams = simulation.judged(rng, runs, 0.1), simulation.judged(rng, runs, 0.1)
    lengths = simulation.gap_run_lengths(rng, runs, streams, 0.2, 0.0, 1000, 6000)
    told("no gap, A = 1,000 requests, limit .00", lengths, 6000)


GAP_SCORES: dict[
    str, tuple[Callable[[np.random.Generator, int, float], simulation.Stream], Callable[[float], bounds.Law]]
] = {
    "judge's scores": (simulation.judged, lambda mean: bounds.Law((0.0, 1 / 3, 2 / 3, 1.0), simulation.JUDGED[mean])),
    "a quarter of them zeros and ones, else the mean": (
        simulation.seldom_wild,
        lambda mean: bounds.Law((0.0, mean, 1.0), (0.25 * (1.0 - mean), 0.75, 0.25 * mean)),
    ),
    "zeros and ones": (simulation.bernoulli, lambda mean: bounds.Law((0.0, 1.0), (1.0 - mean, mean))),
}
"""Scores by name: how to draw them, and their law, by their mean."""


def spread(lengths: Floats | NDArray[np.int64]) -> str:
    median, late = np.quantile(lengths, [0.5, 0.9])
    return f"mean {lengths.mean():5.0f}, median {median:5.0f}, nine in ten within {late:5.0f}"


def confidence_sequences(runs: int) -> None:
    """Share of runs whose 95 % bounds miss the mean at any of 10,000 looks, and how wide they are."""
    say(f"95 % confidence sequences, a look after each of 10,000 audits, {runs} runs")
    for mean in (0.02, 0.1, 0.5):
        rng, bank, missed, widths = np.random.default_rng(31), EstimateBank(runs), np.zeros(runs, dtype=bool), []
        for n in range(1, 10_001):
            bank.step((rng.random(runs) < mean).astype(np.float64), np.ones(runs))
            lower, upper = bank.bounds()
            missed |= (lower > mean) | (upper < mean)
            if n in (100, 1000, 10_000):
                widths.append(f"{(upper - lower).mean():.3f} after {n}")
        say(f"  mean {mean:4.2f}: {100 * missed.mean():4.1f} % ever missed; width {', '.join(widths)}")


def parts(quick: bool) -> Iterator[Callable[[], None]]:
    scale = 1 if quick else 4
    yield partial(cost, 2000)
    yield partial(recorded, 250 * scale)
    yield partial(null, 100 * scale)
    yield partial(false_alarms_of_z, 100 * scale)
    yield partial(delays, 250 * scale, 50_000 * scale)
    yield partial(learning, 100 * scale)
    yield partial(gaps, 25 * scale)
    yield partial(confidence_sequences, 250 * scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the runs")
    for part in parts(parser.parse_args().quick):
        started = time.perf_counter()
        part()
        say(f"  ({time.perf_counter() - started:.0f} s)\n")


if __name__ == "__main__":
    main()
