"""Compares sampled prompts with the questions of suites: prompts that resemble none, clusters, shares and intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.clustered import clustered_share
from auditors.structs import combine
from gateway.features.coverage.figures import CONFIDENCE_LEVEL, Share, SuiteCoverage, Threshold, TrafficCluster
from gateway.features.coverage.questions import Questions
from gateway.features.coverage.resemblance import Floats, Indices, Vectors, nearest, spherical_k_means, units

NEAR_DUPLICATE = 0.95
"""Cosine from which two prompts are one: what a template fills in, or a client that repeats itself."""
FEWEST_UNITS = 10
"""Effective draws below which a share of traffic is not assessable."""
MOST_CLUSTERS = 12
UNITS_A_CLUSTER = 20
"""Draws there are for each cluster of prompts, on average, at least."""
EXAMPLES = 3
MOST_AXES = 3


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled prompt that names an identity, or an ordinary one."""

    exchange_id: str
    text: str
    axes: tuple[str, ...] = ()
    weight: float
    """Weight of the prompt's exchange, above 0: see `auditors.metrics.weighting.bounded_weight`."""
    sender: str | None = None
    """The user that its request names, as a digest."""
    key: str | None = None


class Compared(NamedTuple):
    """A suite's questions as vectors, and of each prompt the cosine of the nearest of them."""

    asked: Questions
    vectors: Vectors
    cosines: Floats


class Found(NamedTuple):
    """The figures of `Coverage` about the traffic."""

    unmatched: Share
    unmatched_distinct: Share
    threshold: Threshold
    suites: list[SuiteCoverage]
    clusters: list[TrafficCluster]


class Traffic:
    """Prompts that name an identity, as vectors."""

    def __init__(self, prompts: Sequence[Prompt], vectors: Vectors, *, seed: int = 0) -> None:
        """`vectors`: (n, dim) unit vectors, one a prompt, at least one."""
        self.prompts = prompts
        self.vectors = vectors
        self.weights = np.array([prompt.weight for prompt in prompts])
        self.units = units(vectors, NEAR_DUPLICATE, [prompt.sender for prompt in prompts])
        n_units = int(self.units.max()) + 1
        k = max(1, min(MOST_CLUSTERS, n_units // UNITS_A_CLUSTER))
        self.clusters, self.centres = spherical_k_means(vectors, self.weights, k, seed=seed)

    def compared(self, questions: Questions, vectors: Vectors) -> Compared:
        """Compares the prompts with the questions of a suite."""
        return Compared(questions, vectors, nearest(self.vectors, vectors)[0])

    def share(self, chosen: NDArray[np.bool_], among: NDArray[np.bool_] | None = None) -> Share:
        """Share of the traffic in `among` (None: of all) that is in `chosen`."""
        return share_of(self.weights, self.units, chosen, among)

    def distinct_share(self, chosen: NDArray[np.bool_]) -> Share:
        """The same of all, each draw counted once: by the mean weight of its exchanges."""
        return share_of(self.weights / np.bincount(self.units)[self.units], self.units, chosen)

    @property
    def largest_key_share(self) -> float:
        """Share of the traffic from the client key that sent the most; prompts without a key count as one key."""
        keys = [prompt.key for prompt in self.prompts]
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        sent = np.bincount([codes[key] for key in keys], weights=self.weights)
        return float(sent.max() / sent.sum())

    def compare_with_suites(self, compared: Sequence[Compared], threshold: Threshold) -> Found:
        """Computes which prompts resemble the questions of which suite, over all and by cluster."""
        resembling = {comparison.asked.suite: comparison.cosines >= threshold.value for comparison in compared}
        best = np.max([comparison.cosines for comparison in compared], axis=0)
        unmatched = best < threshold.value
        clusters = [self._cluster(label, unmatched, resembling) for label in range(len(self.centres))]
        at_lower, at_upper = (self.share(best < end).value for end in (threshold.lower, threshold.upper))
        lost = np.bincount(self.clusters, weights=self.weights * unmatched, minlength=len(clusters))
        return Found(
            unmatched=self.share(unmatched),
            unmatched_distinct=self.distinct_share(unmatched),
            threshold=msgspec.structs.replace(threshold, unmatched_at_lower=at_lower, unmatched_at_upper=at_upper),
            suites=[self._suite(comparison, resembling[comparison.asked.suite]) for comparison in compared],
            clusters=[clusters[label] for label in np.argsort(-lost, kind="stable")],
        )

    def _suite(self, comparison: Compared, resembling: NDArray[np.bool_]) -> SuiteCoverage:
        n_compared, share = len(comparison.asked.chosen), self.share(resembling)
        return combine(SuiteCoverage, comparison.asked, n_compared=n_compared, resembling=share)

    def _cluster(
        self, label: int, unmatched: NDArray[np.bool_], resembling: dict[str, NDArray[np.bool_]]
    ) -> TrafficCluster:
        inside = self.clusters == label
        whole = float(self.weights[inside].sum())
        of_suites = {suite: float(self.weights[inside & mask].sum()) / whole for suite, mask in resembling.items()}
        nearness = self.vectors @ self.centres[label]
        places = [int(index) for index in np.flatnonzero(inside)]
        axes: dict[str, float] = {}
        for prompt in (self.prompts[place] for place in places):
            for axis in prompt.axes:
                axes[axis] = axes.get(axis, 0.0) + prompt.weight
        ordered = sorted(places, key=lambda index: (not unmatched[index], -float(nearness[index])))
        by_unit: dict[int, str] = {}
        for index in ordered:
            by_unit.setdefault(int(self.units[index]), self.prompts[index].exchange_id)
        return TrafficCluster(
            share=self.share(inside),
            unmatched=self.share(unmatched, inside),
            axes=sorted(axes, key=lambda axis: -axes[axis])[:MOST_AXES],
            suites={suite: share for suite, share in of_suites.items() if share > 0},
            examples=list(by_unit.values())[:EXAMPLES],
        )


def share_of(
    weights: Floats, of_units: Indices, chosen: NDArray[np.bool_], among: NDArray[np.bool_] | None = None
) -> Share:
    """Return the weighted share of `chosen` in `among` (None: all); its interval is over draws, `of_units`."""
    among = np.ones(len(weights), dtype=np.bool_) if among is None else among
    wholes = np.bincount(of_units, weights=weights * among).astype(np.float64)
    parts = np.bincount(of_units, weights=weights * (among & chosen)).astype(np.float64)
    used = wholes > 0
    n, n_units, n_effective = int(among.sum()), int(used.sum()), effective(wholes)
    estimate = None if n_effective < FEWEST_UNITS - 1e-9 else clustered_share(parts[used], wholes[used])
    if estimate is None:
        reason = (
            f"not assessable: {n} sampled prompts are {n_units} draws, which their weights make worth "
            f"{n_effective:.1f}; {FEWEST_UNITS} are needed (near-duplicates, and what one named user sent, are one "
            "draw)"
        )
        return Share(value=None, n=n, n_units=n_units, n_effective=n_effective, reason=reason)
    ends = estimate.interval(CONFIDENCE_LEVEL)
    return Share(
        value=estimate.share, lower=ends.lower, upper=ends.upper, n=n, n_units=n_units, n_effective=n_effective
    )


def effective(weights: Floats) -> float:
    """Kish's effective number; 0 of nothing."""
    total = float((weights**2).sum())
    return float(weights.sum() ** 2 / total) if total > 0 else 0.0
