"""Many streams in step: estimates, confidence sequences and detectors of S streams moved by one vectorised update.

The same recursions as `weighting`, `confidence` and `sequential`, with R itself in place of log(1 + R), which a cap
keeps finite. For simulations, and wherever one audit moves many streams; a single stream is faster with plain floats.
"""

import math

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.sequential import BET_LEVEL, BET_PERIOD, BETS, EVERY_VALUE_UNTIL, LARGEST_BET, ConfidenceSums

Floats = NDArray[np.float64]

LARGEST_EVIDENCE = 1e200
"""R is cut here now and then: far beyond any threshold."""
CUT_PERIOD = 16
"""Steps between two cuts; at the smallest limit, 0.001, a step multiplies by 900 at most, so R stays finite."""

_LOG_TERM = math.log(2.0 / (1.0 - BET_LEVEL))
_BETS_AND_ONE = np.stack([np.array(BETS), np.ones(len(BETS))], axis=1)
_PRIOR = np.array([[1.0], [0.5]])


class DetectorBank:
    """Two-sided Shiryaev-Roberts detectors of S streams; one step moves them all."""

    def __init__(self, lower_limits: Floats, upper_limits: Floats) -> None:
        """Detectors without evidence.

        Args:
            lower_limits: (S,) in [0, 0.999]; null hypothesis of the falling side.
            upper_limits: (S,) in [0.001, 1]; null hypothesis of the rising side.
        """
        n_streams = upper_limits.size
        self._per_limit = np.stack([1.0 / upper_limits, 1.0 / (1.0 - lower_limits)])
        self.evidence: Floats = np.zeros((len(BETS), 2 * n_streams))
        """R of each bet; rising sides first, then falling ones."""
        self._factors = np.empty_like(self.evidence)
        self._gains_and_ones = np.ones((2, 2 * n_streams))
        self._gains = self._gains_and_ones[0].reshape(2, -1)
        self._by_bet_and_side = self.evidence.reshape(2 * len(BETS), -1)
        self._means = np.full(2 * len(BETS), 1.0 / (2 * len(BETS)))
        self._until_cut = CUT_PERIOD

    def step(self, y: Floats, weight: Floats, starts: Floats | None = None) -> Floats:
        """One value for every stream.

        Args:
            y: (S,) in [0, 1].
            weight: (S,) in [0, 1].
            starts: (S,) audits that each value is made of; None for one each. Where starts and weight are 0, the
                stream stays as it is.

        Returns: (S,) the mean of R over bets and sides; an alarm at A or more.
        """
        gains, evidence = self._gains, self.evidence
        np.multiply(weight, y, out=gains[0])
        np.subtract(weight, gains[0], out=gains[1])
        gains *= self._per_limit
        gains -= weight
        np.matmul(_BETS_AND_ONE, self._gains_and_ones, out=self._factors)
        evidence += 1.0 if starts is None else np.tile(starts, 2)
        evidence *= self._factors
        self._until_cut -= 1
        if not self._until_cut:
            np.minimum(evidence, LARGEST_EVIDENCE, out=evidence)
            self._until_cut = CUT_PERIOD
        found: Floats = self._means @ self._by_bet_and_side
        return found

    def limit(self, index: int, lower: float, upper: float) -> None:
        """Gives one stream other limits; its evidence stays."""
        self._per_limit[:, index] = 1.0 / upper, 1.0 / (1.0 - lower)

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Sets the evidence of some streams, (S,), back to nothing."""
        self.evidence[:, np.tile(where, 2)] = 0.0


class EstimateBank:
    """Confidence sums of S streams, which hold their weighted means as well."""

    def __init__(self, n_streams: int) -> None:
        self.n = 0
        self._totals: Floats = np.zeros((2, n_streams)) + _PRIOR
        """Sums of w and w y, each with its prior value."""
        self._squares: Floats = np.zeros((3, n_streams))
        """Sums of w^2, w^2 y and (w y)^2."""
        self._bets: Floats = np.zeros((2, n_streams))
        """Sums of bet w and bet w y."""
        self._offs: Floats = np.zeros((3, n_streams))
        """Sums of phi B^2, phi A B, phi A^2."""
        self._bet = np.full((2, n_streams), LARGEST_BET)  # twice the same: two rows are faster than broadcasting one
        self._phi = -np.log1p(-self._bet) - self._bet
        self._seen, self._off, self._scaled = np.empty((3, 2, n_streams))
        self._products = np.empty((3, n_streams))
        self._first_products, self._last_product = self._products[:2], self._products[2]

    def step(self, y: Floats, weight: Floats) -> None:
        """One value for every stream: y (S,) in [0, 1], weight (S,) in (0, 1]."""
        seen, off, scaled, products = self._seen, self._off, self._scaled, self._products
        self.n = t = self.n + 1
        seen[0] = weight
        np.multiply(weight, y, out=seen[1])
        np.multiply(self._totals, -1.0 / t, out=off)
        off += seen
        np.multiply(off, self._phi, out=scaled)
        np.multiply(scaled[0], off, out=self._first_products)
        np.multiply(scaled[1], off[1], out=self._last_product)
        self._offs += products
        self._totals += seen
        np.multiply(seen, self._bet, out=scaled)
        self._bets += scaled
        np.multiply(weight, seen, out=self._first_products)
        np.multiply(seen[1], seen[1], out=self._last_product)
        self._squares += products
        if t < EVERY_VALUE_UNTIL or t % BET_PERIOD == 0:
            self._renew_bets()

    def stream(self, index: int) -> ConfidenceSums:
        """The sums of one stream, as plain floats."""
        w, wy = (float(value) for value in self._totals[:, index] - _PRIOR[:, 0])
        ww, wwy, wwyy = (float(value) for value in self._squares[:, index])
        bet_w, bet_wy = (float(value) for value in self._bets[:, index])
        bb, ab, aa = (float(value) for value in self._offs[:, index])
        return ConfidenceSums(self.n, w, wy, ww, wwy, wwyy, bet_w, bet_wy, aa, ab, bb, float(self._bet[0, index]))

    def bounds(self, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper bound of each stream, (S,) each; see `confidence.interval`."""
        log_term = math.log(2.0 / (1.0 - confidence_level))
        (bet_w, bet_wy), (bb, ab, aa) = self._bets, self._offs
        lower = _positive_root(bb, bet_w - 2.0 * ab, log_term + aa - bet_wy)
        linear = bet_w + 2.0 * ab
        upper = _positive_root(bb, linear - 2.0 * bb, log_term + aa + bet_wy - linear + bb)
        return np.minimum(1.0, lower), np.maximum(0.0, 1.0 - upper)

    def _renew_bets(self) -> None:
        (w, wy), (ww, wwy, wwyy) = self._totals, self._squares
        mean, mean_weight = wy / w, w / (self.n + 1)
        spread = 0.25 * mean_weight * mean_weight + np.maximum(0.0, wwyy - mean * (2.0 * wwy - mean * ww))
        bet = np.minimum(LARGEST_BET, np.sqrt(2.0 * _LOG_TERM / math.log(self.n + 2) / spread))
        self._bet[:] = bet
        self._phi[:] = -np.log1p(-bet) - bet


def _positive_root(square: Floats, linear: Floats, constant: Floats) -> Floats:
    denominator = linear + np.sqrt(linear * linear - 4.0 * square * np.minimum(0.0, constant))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.where(denominator > 0.0, -2.0 * constant / denominator, np.inf)
    return np.where(constant >= 0.0, 0.0, root)
