"""Compares the pairs of a canary: every gap with its bounds and evidence, and the verdict with its reasons."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from benchmarks.lab.metrics import sequential_comparison as sequential
from benchmarks.lab.metrics.sequential_comparison import GapSums, MeanSums
from gateway.features.canary.request import DIRECTIONS, FAILURE_RATE, REFUSAL_RATE, CanaryRequest, Gap

Verdict = Literal["undecided", "promote", "hold", "rollback"]

FAILURES_TO_HOLD = 20
"""Pairs in a row in which the same side could not be asked."""
MOST_NAMED = 5
"""Gaps named in a reason."""
LARGEST_LOG = 700.0
"""Evidence is shown up to e^700, which a float still holds."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over one side's answers to the probes of an exchange."""

    n: int = 0
    refused: int = 0
    words: int = 0
    """Words of all answers together."""
    seconds: float = 0.0
    """Seconds of all answers together, from request to reply, waiting behind live traffic included."""
    calls: int = 0
    valid_calls: int = 0
    """Calls of tools, and those among them whose arguments are a JSON object."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange probed on both sides, without a word of it."""

    number: int
    """Number of the draw, from 0."""
    auditor: str
    axis: str
    group: str
    scores: Mapping[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    """Scores of stable and canary by metric, on -1..1."""
    excluded: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Reason by metric why there are not two scores."""
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Reason by side why the side could not be asked."""
    is_gone: bool = False
    """True if the exchange was deleted meanwhile, so that neither side was asked."""
    stable: Answers | None = None
    canary: Answers | None = None


class GapReport(msgspec.Struct, frozen=True, kw_only=True):
    """One gap of both models so far, on -1..1."""

    auditor: str
    metric: str
    axis: str
    group: str
    direction: sequential.Direction
    n: int
    n_excluded: int
    excluded: dict[str, int]
    stable: float | None
    canary: float | None
    growth: float | None
    """canary - stable, of an absolute gap |canary| - |stable|; None without a pair."""
    lower: float
    upper: float
    """Each end holds at all times with probability 1 - alpha or more."""
    e_value: float | None
    """E-value against "the gap grew by at most the tolerance"; None for the failure rate, which is none."""
    is_excluded: bool
    """True if a growth by the smallest difference is excluded."""


class ProxyReport(msgspec.Struct, frozen=True, kw_only=True):
    """A measure reported with the gaps, deciding nothing: means, and (canary - stable) / (canary + stable)."""

    what: str
    """words, seconds, or valid_calls: the share of calls of tools whose arguments are a JSON object."""
    n: int
    stable: float | None
    canary: float | None
    relative_difference: float | None
    lower: float
    upper: float


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pairs so far come to."""

    verdict: Verdict
    reasons: list[str]
    n_pairs: int
    """Drawn so far."""
    n_compared: int
    """Answered on both sides."""
    failed: dict[str, int]
    """Failed pairs by side and reason, such as "canary: timeout"."""
    e_value: float
    """Mean over all gaps: against "no gap has grown by more than the tolerance"."""
    gaps: list[GapReport]
    beside: list[ProxyReport]


class Comparison:
    """Adds up pairs. The order in which they come changes nothing but the count of failures in a row."""

    def __init__(self, request: CanaryRequest, gaps: Sequence[Gap]) -> None:
        """`gaps` are all that are compared, named before the first pair: evidence is averaged over them."""
        self._request = request
        self._gaps = {gap: GapSums() for gap in gaps}
        self._excluded: dict[Gap, Counter[str]] = {gap: Counter() for gap in gaps}
        self._failed: Counter[str] = Counter()
        self._in_a_row: dict[str, int] = {"stable": 0, "canary": 0}
        self._beside: dict[str, MeanSums] = {"words": MeanSums(), "seconds": MeanSums(), "valid_calls": MeanSums()}
        self._sums: dict[tuple[str, str], float] = {}
        self.n_pairs = 0
        self._n_compared = 0
        self._n_gone = 0

    def add(self, pair: Pair) -> None:
        self.n_pairs += 1
        if pair.is_gone:
            self._n_gone += 1
            return
        for side in ("stable", "canary"):
            self._in_a_row[side] = self._in_a_row[side] + 1 if side in pair.failed else 0
        self._failed.update(f"{side}: {reason}" for side, reason in pair.failed.items())
        self._add(Gap(pair.auditor, FAILURE_RATE), float("stable" in pair.failed), float("canary" in pair.failed))
        if pair.failed:
            reason = ", ".join(f"{side}: {why}" for side, why in pair.failed.items())
            for gap in self._tested():
                if gap.auditor == pair.auditor and (gap.axis, gap.group) in ((pair.axis, pair.group), ("", "")):
                    self._excluded[gap][reason] += 1
            return
        self._n_compared += 1
        for metric, (stable, canary) in pair.scores.items():
            self._add(Gap(pair.auditor, metric, pair.axis, pair.group), stable, canary)
        for metric, reason in pair.excluded.items():
            if (gap := Gap(pair.auditor, metric, pair.axis, pair.group)) in self._gaps:
                self._excluded[gap][reason] += 1
        if pair.stable and pair.canary and pair.stable.n and pair.canary.n:
            self._add_answers(pair.auditor, pair.stable, pair.canary)

    def findings(self) -> Findings:
        """Evaluates the pairs so far. Takes milliseconds for each gap: call it off the event loop."""
        evidence, tolerance = sequential.log_evidence_of_growth, self._request.tolerance
        reports = [self._report(gap) for gap in self._gaps]
        logs = [evidence(self._gaps[gap], tolerance, DIRECTIONS[gap.metric]) for gap in self._tested()]
        log_evidence = sequential.log_mean_evidence(logs) if logs else 0.0
        verdict, reasons = self._verdict(reports, log_evidence)
        return Findings(
            verdict=verdict,
            reasons=reasons,
            n_pairs=self.n_pairs,
            n_compared=self._n_compared,
            failed=dict(self._failed) | ({"deleted meanwhile": self._n_gone} if self._n_gone else {}),
            e_value=math.exp(min(LARGEST_LOG, log_evidence)),
            gaps=reports,
            beside=[self._proxy(what) for what in self._beside],
        )

    def _add(self, gap: Gap, stable: float, canary: float) -> None:
        if gap in self._gaps:
            self._gaps[gap] = sequential.add_pair(self._gaps[gap], stable, canary)

    def _add_answers(self, auditor: str, stable: Answers, canary: Answers) -> None:
        self._add(Gap(auditor, REFUSAL_RATE), stable.refused / stable.n, canary.refused / canary.n)
        means = {
            "words": (stable.words / stable.n, canary.words / canary.n),
            "seconds": (stable.seconds / stable.n, canary.seconds / canary.n),
        }
        if stable.calls and canary.calls:
            means["valid_calls"] = (stable.valid_calls / stable.calls, canary.valid_calls / canary.calls)
        for what, (x, y) in means.items():
            if x + y > 0:
                self._beside[what] = sequential.add(self._beside[what], (y - x) / (y + x))
                for side, value in (("stable", x), ("canary", y)):
                    self._sums[what, side] = self._sums.get((what, side), 0.0) + value

    def _tested(self) -> list[Gap]:
        return [gap for gap in self._gaps if gap.metric != FAILURE_RATE]

    def _report(self, gap: Gap) -> GapReport:
        request, sums, direction = self._request, self._gaps[gap], DIRECTIONS[gap.metric]
        bounds = sequential.growth_bounds(sums, request.alpha, direction)
        log_e = sequential.log_evidence_of_growth(sums, request.tolerance, direction)
        stable, canary = sums.means
        return GapReport(
            **gap._asdict(),
            direction=direction,
            n=sums.n,
            n_excluded=self._excluded[gap].total(),
            excluded=dict(self._excluded[gap]),
            stable=stable if sums.n else None,
            canary=canary if sums.n else None,
            growth=sequential.growth(sums, direction) if sums.n else None,
            lower=bounds.lower,
            upper=bounds.upper,
            e_value=None if gap.metric == FAILURE_RATE else math.exp(min(LARGEST_LOG, log_e)),
            is_excluded=bounds.upper < request.smallest_difference,
        )

    def _verdict(self, reports: Sequence[GapReport], log_evidence: float) -> tuple[Verdict, list[str]]:
        request = self._request
        if log_evidence >= math.log(1.0 / request.alpha):
            return "rollback", [*_worst(reports, request), _together(log_evidence, len(self._tested()), request)]
        open_gaps = [report for report in reports if not report.is_excluded]
        if not open_gaps and self._tested():
            return "promote", [
                f"all {len(reports)} gaps: a growth by {request.smallest_difference:g} or more is excluded "
                f"(alpha {request.alpha:g}) after {self.n_pairs} pairs"
            ]
        for side, failures in self._in_a_row.items():
            if failures >= FAILURES_TO_HOLD:
                last = ", ".join(f"{why} ({n} pairs)" for why, n in self._failed.items() if why.startswith(side))
                return "hold", [f"the {side} model could not be asked {failures} times in a row: {last}"]
        if self.n_pairs >= request.max_pairs:
            return "hold", [
                f"max_pairs {request.max_pairs} is reached: neither is the canary known to be worse, nor is a growth "
                f"by {request.smallest_difference:g} excluded of {_named(open_gaps)}"
            ]
        return "undecided", [
            f"{self.n_pairs} of at most {request.max_pairs} pairs; a growth by {request.smallest_difference:g} is not "
            f"excluded yet of {len(open_gaps)} of {len(reports)} gaps"
        ]

    def _proxy(self, what: str) -> ProxyReport:
        sums = self._beside[what]
        ends = sequential.bounds(sums, self._request.alpha)
        totals = {side: self._sums.get((what, side), 0.0) for side in ("stable", "canary")}
        totals["relative_difference"] = sums.total
        means = {name: total / sums.n if sums.n else None for name, total in totals.items()}
        return ProxyReport(what=what, n=sums.n, lower=ends.lower, upper=ends.upper, **means)


def _worst(reports: Sequence[GapReport], request: CanaryRequest) -> list[str]:
    """Return a sentence for each of the gaps that give most of the evidence."""
    total = sum(report.e_value or 0.0 for report in reports)
    ranked = sorted((report for report in reports if report.e_value), key=lambda report: -(report.e_value or 0.0))
    telling = [report for report in ranked if (report.e_value or 0.0) >= total / 20][:MOST_NAMED]
    return [
        f"{_name(report)}: {report.canary or 0.0:.3f} on the canary, {report.stable or 0.0:.3f} on stable in "
        f"{report.n} pairs; grown by {report.growth or 0.0:.3f}, {report.lower:.3f} or more (alpha {request.alpha:g}), "
        f"e-value {report.e_value:.3g}"
        for report in telling
    ]


def _together(log_evidence: float, n_gaps: int, request: CanaryRequest) -> str:
    value = math.exp(min(LARGEST_LOG, log_evidence))
    return (
        f"mean e-value over {n_gaps} gaps {value:.3g}, at least 1 / alpha = {1 / request.alpha:g}: if no gap had grown "
        f"by more than {request.tolerance:g}, the probability of ever reaching this would be {request.alpha:g} at most"
    )


def _name(report: GapReport) -> str:
    return str(Gap(report.auditor, report.metric, report.axis, report.group))


def _named(reports: Sequence[GapReport]) -> str:
    names = [f"{_name(report)} (upper bound {report.upper:.3f}, {report.n} pairs)" for report in reports[:MOST_NAMED]]
    more = len(reports) - len(names)
    return "; ".join(names) + (f" and {more} more" if more > 0 else "")
