"""Draws of judged exchanges for labels: evenly, or where a label narrows the interval of its stream most.
Each stream gets as many labels as by an even draw; in it, exchanges are drawn without replacement in proportion to
fixed numbers (Efraimidis & Spirakis 2006, doi:10.1016/j.ipl.2005.11.003), so probabilities are exact however many are
labelled. The numbers of `most_telling` are W (even + telling * s / mean s + reaching * c / mean c): W the weight in the
mean, s the judge's predicted error, c its largest; of PARTS, those with the narrowest predicted interval.
"""

import heapq
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from auditors.streams.calibration import Pair
from auditors.streams.label_sequence import Draw

Select = Literal["evenly", "most_telling"]
PARTS = tuple((even / 6, telling / 6, (6 - even - telling) / 6) for even in range(2, 7) for telling in range(7 - even))
"""Parts of W, W * error and W * reach; the first, 1/3 at least, bounds share / probability by 3."""
SHRINKAGE = 4.0
"""Labels that the pool of all streams, and the prior, count as."""
PRIOR_NEUTRAL, PRIOR_OTHER = 0.1, 0.3
"""Errors expected of a neutral score and of any other before there are labels: root mean squares on [0, 1]."""
_LOG_LIMIT = math.log(50.0)


class Candidate(NamedTuple):
    """A judged exchange of a stream, which may be drawn."""

    stream: str
    judge: float
    """Score on the scale from 0 to 1."""
    weight: float
    """Weight in the mean of the stream."""
    is_neutral: bool = True
    is_doubted: bool = False
    """The judge's measurement has a note that asks for a person's check; doubles the predicted variance."""


class Drawn(NamedTuple):
    """A drawn candidate: its place among the candidates, and its draw."""

    number: int
    draw: Draw
    inclusion: float
    """Probability of being among the drawn, to first order; exact for an even draw."""


def draw_candidates(
    candidates: Sequence[Candidate],
    n: int,
    rng: random.Random,
    frame: str,
    select: Select = "evenly",
    labelled: Mapping[str, Sequence[Pair]] = {},
) -> list[Drawn]:
    """Draw `n` in order; `labelled`: earlier labels by stream, to predict errors. Raises ValueError below `n`."""
    by_stream: dict[str, list[int]] = {}
    for number, candidate in enumerate(candidates):
        by_stream.setdefault(candidate.stream, []).append(number)
    streams = [candidates[number].stream for number in rng.sample(range(len(candidates)), n)]
    errors = _predicted_errors(candidates, labelled) if select == "most_telling" else None
    orders = {}
    for stream, n_drawn in Counter(streams).items():
        numbers = by_stream[stream]
        members = [candidates[number] for number in numbers]
        total = sum(member.weight for member in members)
        shares = [member.weight / total for member in members]
        probabilities: Sequence[float] = [1.0 / len(members)] * len(members)
        expected = n * len(members) / len(candidates)
        if errors is not None:
            probabilities = _telling(members, shares, [errors[number] for number in numbers], expected)
        drawn = _draw_in_order(members, shares, probabilities, n_drawn, rng, frame)
        orders[stream] = iter(
            [Drawn(numbers[place], draw, min(1.0, expected * probabilities[place])) for place, draw in drawn]
        )
    return [next(orders[stream]) for stream in streams]


def _draw_in_order(
    members: Sequence[Candidate],
    shares: Sequence[float],
    probabilities: Sequence[float],
    n: int,
    rng: random.Random,
    frame: str,
) -> Iterator[tuple[int, Draw]]:
    ratios = [share / probability for share, probability in zip(shares, probabilities, strict=True)]
    largest_judge, largest_rest = _largest((member.judge, ratio) for member, ratio in zip(members, ratios, strict=True))
    keys = [rng.expovariate(1.0) / probability for probability in probabilities]
    left = 1.0
    for place in heapq.nsmallest(n, range(len(members)), keys.__getitem__):
        probability = probabilities[place]
        draw = Draw(
            frame=frame,
            share=shares[place],
            probability=min(1.0, probability / max(left, probability)),
            largest=max(ratios),
            largest_judge=largest_judge,
            largest_rest=largest_rest,
        )
        yield place, draw
        left -= probability


def _largest(judged: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the largest ratio * judge and ratio * (1 - judge), from judges' scores with their ratios."""
    products = [(ratio * judge, ratio * (1.0 - judge)) for judge, ratio in judged]
    return max(product for product, _ in products), max(product for _, product in products)


def _telling(
    members: Sequence[Candidate], shares: Sequence[float], errors: Sequence[float], n: float
) -> Sequence[float]:
    """Return the probabilities whose predicted interval at `n` labels is the narrowest."""
    kinds = Counter(zip(shares, (member.judge for member in members), errors, strict=True))
    mean_error = math.fsum(count * share * error for (share, _, error), count in kinds.items())
    mean_reach = math.fsum(count * share * max(judge, 1.0 - judge) for (share, judge, _), count in kinds.items())
    best, narrowest = dict[tuple[float, float, float], float](), math.inf
    for even, telling, reaching in PARTS:
        factors = {
            kind: even + telling * kind[2] / mean_error + reaching * max(kind[1], 1.0 - kind[1]) / mean_reach
            for kind in kinds
        }
        variance = sum(kinds[kind] * kind[0] * kind[2] ** 2 / factor for kind, factor in factors.items())
        range_ = sum(_largest((kind[1], 1.0 / factor) for kind, factor in factors.items()))
        width = 2.0 * math.sqrt(2.0 * _LOG_LIMIT * variance / n) + _LOG_LIMIT * range_ / n
        if width < narrowest:
            best, narrowest = factors, width
    return [
        share * best[share, member.judge, error] for share, member, error in zip(shares, members, errors, strict=True)
    ]


def _predicted_errors(candidates: Sequence[Candidate], labelled: Mapping[str, Sequence[Pair]]) -> list[float]:
    """Predicted root mean square of person - judge, by stream and score, shrunk to all streams, then to the prior."""
    own: dict[tuple[str, float], tuple[int, float]] = {}
    pool: dict[float, tuple[int, float]] = {}
    for stream, pairs in labelled.items():
        for pair in pairs:
            square = (pair.person - pair.judge) ** 2
            n, total = own.get((stream, pair.judge), (0, 0.0))
            own[stream, pair.judge] = n + 1, total + square
            n, total = pool.get(pair.judge, (0, 0.0))
            pool[pair.judge] = n + 1, total + square
    errors = []
    for candidate in candidates:
        square = (PRIOR_NEUTRAL if candidate.is_neutral else PRIOR_OTHER) ** 2
        for n, total in (pool.get(candidate.judge, (0, 0.0)), own.get((candidate.stream, candidate.judge), (0, 0.0))):
            square = (total + SHRINKAGE * square) / (n + SHRINKAGE)
        errors.append(math.sqrt(square * (2.0 if candidate.is_doubted else 1.0)))
    return errors
