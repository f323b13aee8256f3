"""Measure how far a hundred labels narrow a live mean: planted judges and raters, in worlds whose truth is known.

    python -m tools.labels [--seeds 300] [--n 100] [--audited 4000]

Each run draws a stream of audited exchanges, labels `n` of them and follows the sequence from the first label on. It
prints the median width at the last label, on the scale from 0 to 1, and the share of runs in which the sequence
excluded the truth at any time.
"""

import argparse
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from auditors.labelling.drawing import Candidate, Select, draw_candidates
from auditors.metrics import sequential
from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, add_weighted, hajek_mean, weighted_variance
from auditors.streams.label_sequence import LABELS_SHARE, LabelSequence, judge_level

Table = Mapping[tuple[int, int], float]
"""Probabilities of a judge's and a person's score of favouritism, -1 to 2."""
COMMON, RARE = {-1: 0.1, 0: 0.5, 1: 0.2, 2: 0.2}, {-1: 0.02, 0: 0.9, 1: 0.04, 2: 0.04}
"""Probabilities of the judge's scores."""


def table_of(judged: Mapping[int, float], errors: Mapping[int, Mapping[int, float]] = {}, noise: float = 0.0) -> Table:
    """Return the table of a judge. `errors`: probabilities of the person's scores for a judge's score that may be
    wrong; `noise`: probability that the person moves to each neighbouring score.
    """
    table: dict[tuple[int, int], float] = {}
    for judge, probability in judged.items():
        for person, given in errors.get(judge, {judge: 1.0}).items():
            for moved, chance in ((person - 1, noise), (person, 1.0 - 2.0 * noise), (person + 1, noise)):
                cell = judge, min(2, max(-1, moved))
                table[cell] = table.get(cell, 0.0) + probability * given * chance
    return table


ERRORS = {1: {0: 0.3, 1: 0.5, 2: 0.2}, -1: {-1: 0.5, 0: 0.5}}
WORLDS: Mapping[str, Sequence[Table]] = {
    "judge right": [table_of(COMMON)],
    "errors in some scores": [table_of(COMMON, ERRORS)],
    "errors by group": [table_of(COMMON, {2: {2: 0.6, 0: 0.4}}), table_of(COMMON, {0: {0: 0.9, 1: 0.1}})],
    "noisy rater": [table_of(COMMON, ERRORS, noise=0.1)],
    "judge useless": [table_of(COMMON, dict.fromkeys(COMMON, COMMON))],
    "favouring rare": [table_of(RARE, {score: {score: 0.5, 0: 0.5} for score in (-1, 1, 2)})],
}
"""Streams of each world, one a group."""


class Arm(NamedTuple):
    """A way to spend the labels."""

    name: str
    select: Select
    uses_judge: bool = True


ARMS = (
    Arm("evenly, no judge", "evenly", uses_judge=False),
    Arm("evenly", "evenly"),
    Arm("most telling", "most_telling"),
)


class Audited(NamedTuple):
    """The audited exchanges of a stream: scores of judge and person on the scale from 0 to 1."""

    exchanges: list[tuple[float, float]]
    judged: WeightedSums
    bounds: Interval
    """Bounds of the judge's mean."""
    truth: float
    """Mean of the people's scores, over all that could have been audited."""


class Outcome(NamedTuple):
    """A stream, followed to the last label."""

    width: float
    has_missed: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--n", type=int, default=100, help="labels of each stream")
    parser.add_argument("--audited", type=int, default=4000, help="audited exchanges of each stream")
    options = parser.parse_args()
    print(
        f"median width at {options.n} labels of {options.audited} exchanges, {options.seeds} seeds; share that missed"
    )
    print(f"{'':24}" + "".join(f"{arm.name:>22}" for arm in ARMS))
    for world, tables in WORLDS.items():
        outcomes: dict[str, list[Outcome]] = {arm.name: [] for arm in ARMS}
        for seed in range(options.seeds):
            rng = random.Random(seed)
            streams = [audit(table, options.audited, rng) for table in tables]
            for arm in ARMS:
                outcomes[arm.name] += follow(arm, streams, options.n, rng)
        cells = [
            f"{statistics.median(outcome.width for outcome in followed):>14.3f} "
            f"{100 * statistics.fmean(outcome.has_missed for outcome in followed):>5.1f} %"
            for followed in outcomes.values()
        ]
        print(f"{world:24}" + "".join(cells), flush=True)
    return 0


def audit(table: Table, n: int, rng: random.Random) -> Audited:
    """Return n exchanges of a stream, with the sums and the bounds that the gateway keeps of them."""
    exchanges = rng.choices([((judge + 1) / 3, (person + 1) / 3) for judge, person in table], list(table.values()), k=n)
    sums, confidence = WeightedSums(), sequential.ConfidenceSums()
    for judge, _ in exchanges:
        sums, confidence = add_weighted(sums, judge, 1.0), sequential.add(confidence, judge)
    truth = math.fsum(probability * (person + 1) / 3 for (_, person), probability in table.items())
    return Audited(exchanges, sums, sequential.interval(confidence, judge_level(0.95)), truth)


def follow(arm: Arm, streams: Sequence[Audited], n: int, rng: random.Random) -> list[Outcome]:
    """Label n exchanges of each stream and follow its sequence. Returns: an outcome a stream."""
    sequences = [sequence_of(arm, stream) for stream in streams]
    missed = [False] * len(streams)
    places = [(number, exchange) for number, stream in enumerate(streams) for exchange in stream.exchanges]
    candidates = [Candidate(str(number), judge, 1.0, judge == 1 / 3) for number, (judge, _) in places]
    for drawn in draw_candidates(candidates, n * len(streams), rng, "frame", arm.select):
        number, (judge, person) = places[drawn.number]
        draw = drawn.draw if arm.uses_judge else msgspec.structs.replace(drawn.draw, largest_judge=0.0)
        sequences[number].add(judge if arm.uses_judge else 0.0, person, draw)
        missed[number] |= sequences[number].excludes(streams[number].truth)
    outcomes = []
    for sequence, has_missed in zip(sequences, missed, strict=True):
        ends = sequence.interval()
        outcomes.append(Outcome(ends.upper - ends.lower, has_missed))
    return outcomes


def sequence_of(arm: Arm, stream: Audited) -> LabelSequence:
    """Return the sequence of a stream without labels; without the judge, the labels have the whole error."""
    if arm.uses_judge:
        return LabelSequence(hajek_mean(stream.judged), stream.bounds, weighted_variance(stream.judged))
    return LabelSequence(0.0, Interval(0.0, 0.0), weighted_variance(stream.judged), 1.0 - 0.05 / LABELS_SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
