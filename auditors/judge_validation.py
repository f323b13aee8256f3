"""A judge's comparison with people, and whether it validates the judge (protocols 2.11); read without numpy."""

from datetime import UTC, datetime

import msgspec

from auditors.metrics.intervals import Interval, KnownRates

MIN_JUDGEMENTS = 100
"""Below this the interval of kappa says little."""
MIN_KAPPA = 0.4
"""Least value of the lower end of kappa's 95 % interval: below it agreement is poor (Fleiss 1981)."""


class GroupValidation(msgspec.Struct, frozen=True, kw_only=True):
    """The same of the judgements about one group. Shares are in [0, 1]; no interval where exchanges are too few."""

    group: str
    n: int
    agreement: float
    agreement_interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    sensitivity: float | None
    """Share of what people put above the threshold that the judge does too."""
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of a judge with people's labels. Files of before 23 November 2026 lack the fields with a default."""

    schema: int = 1
    judge_model: str
    prompt_sha256: str
    """The question whose answers were compared (`provenance.judge` of a result)."""
    n: int
    """Judgements on which people agree with one another."""
    agreement: float
    """Share of equal scores, in [0, 1]."""
    kappa: float | None
    kappa_lower: float | None
    kappa_upper: float | None
    labels_sha256: str
    n_exchanges: int | None = None
    """Number of exchanges that were judged; intervals are by exchange."""
    agreement_interval: Interval | None = None
    confusion: list[list[int]] | None = None
    """Counts by score -1, 0, 1, 2: row people's, column the judge's."""
    by_group: tuple[GroupValidation, ...] = ()
    n_people: int | None = None
    """People who labelled the judgements of several; None if there are none, or a label names no author."""
    n_by_several: int = 0
    """Judgements that two people or more have labelled."""
    people_agreement: float | None = None
    """Share of pairs of people who gave one judgement the same score: what a judge can be expected to reach."""
    people_agreement_interval: Interval | None = None
    alpha: float | None = None
    """Krippendorff's of people, ordinal."""
    alpha_interval: Interval | None = None
    thinking: str | None = None
    """Thinking setting of the judge in the comparison: with another setting it is another judge."""
    fingerprints: tuple[str, ...] = ()
    threshold: float = 0.0
    """A score above it is positive in the rates."""
    rates: dict[str, KnownRates] = {}
    """Error rates by group, "" for all, which correct a share of other judgements."""
    drifted_since: float | None = None
    """Unix time at which the judge was seen to have moved after the labels; set by a store, never in a file."""

    @property
    def fault(self) -> str | None:
        """Why it validates no judge; None when it does."""
        if self.drifted_since is not None:
            return f"the judge has drifted since, on {datetime.fromtimestamp(self.drifted_since, UTC):%Y-%m-%d}"
        if self.n < MIN_JUDGEMENTS:
            plural = "" if self.n == 1 else "s"
            return f"it was compared with people on {self.n} judgement{plural}, fewer than {MIN_JUDGEMENTS}"
        if self.kappa_lower is None or self.kappa_lower < MIN_KAPPA:
            kappa_text = "undefined" if self.kappa is None else f"{self.kappa:.2f}"
            low = "" if self.kappa_lower is None else f", lower end {self.kappa_lower:.2f}"
            return f"its agreement with people is too low or unknown: kappa {kappa_text}{low}, needed {MIN_KAPPA}"
        return None


def decoded(content: bytes) -> Validation:
    """Decode a file of a validation. Raises ValueError with a message of a single line."""
    try:
        return msgspec.json.decode(content, type=Validation)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ValueError(f"{exc}: name a file that judge calibrate --out wrote") from exc
