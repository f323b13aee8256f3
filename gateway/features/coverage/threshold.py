"""Calibrates the cosine from which a text resembles a question, by how the suites' own questions do."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gateway.features.coverage.figures import CONFIDENCE_LEVEL, Threshold
from gateway.features.coverage.questions import Questions
from gateway.features.coverage.resemblance import Vectors, nearest_outside, weighted_quantile

RECOGNISED = 0.95
"""Share of the suites' own questions, each held out with its cluster, that the threshold recognises."""
HELD_OUT = 200
"""Clusters of a suite that are held out, a question of each, in an order that depends on digests."""
N_RESAMPLES = 500


def calibrate(questions: Sequence[Questions], vectors: Sequence[Vectors], *, seed: int = 0) -> Threshold:
    """Return the cosine of the nearest question of another cluster that 95 % of held-out questions reach, suites
    weighing the same; its interval resamples questions within suites. `vectors`: (n, dim) unit vectors of each suite's
    questions. Raises ValueError where nothing can be held out.
    """
    everything = np.concatenate(vectors)
    labels, firsts = _clusters(questions)
    similarities = [nearest_outside(everything[own], labels[own], everything, labels) for own in firsts if len(own)]
    similarities = [above for cosines in similarities if len(above := cosines[cosines > -1.0])]
    if not similarities:
        raise ValueError("there are no two clusters of questions to compare")
    rng = np.random.default_rng(seed)
    resampled = [_of([rng.choice(cosines, len(cosines)) for cosines in similarities]) for _ in range(N_RESAMPLES)]
    tail = 50 * (1 - CONFIDENCE_LEVEL)
    lower, upper = np.percentile(resampled, [tail, 100 - tail])
    value = _of(similarities)
    return Threshold(
        value=value,
        lower=min(float(lower), value),
        upper=max(float(upper), value),
        recognised=RECOGNISED,
        n_held_out=sum(map(len, similarities)),
    )


def _of(cosines: Sequence[NDArray[np.float64]]) -> float:
    weights = np.concatenate([np.full(len(cosine), 1 / len(cosine)) for cosine in cosines])
    return weighted_quantile(np.concatenate(cosines), weights, 1 - RECOGNISED)


def _clusters(questions: Sequence[Questions]) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    codes: dict[tuple[str, str], int] = {}
    labels: list[int] = []
    firsts: list[NDArray[np.intp]] = []
    for of_suite in questions:
        own: list[int] = []
        for question in of_suite.chosen:
            key = of_suite.suite, question.cluster
            if key not in codes and len(own) < HELD_OUT:
                own.append(len(labels))
            labels.append(codes.setdefault(key, len(codes)))
        firsts.append(np.array(own, dtype=np.intp))
    return np.array(labels, dtype=np.intp), firsts
