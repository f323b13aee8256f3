"""Tables that `judge calibrate` prints: a comparison of a judge with people."""

from collections.abc import Iterator, Sequence

from auditors.metrics.intervals import Agreement, CorrectedShare, Interval, wilson_interval
from benchmarks.lab.metrics.agreement import JudgeAgreement
from benchmarks.lab.metrics.error_rates import ErrorRates, Rate
from gateway.features.lab.judge.comparison import Comparison, Raters
from gateway.features.lab.judge.labels import Labels
from gateway.terminal.tables import aligned

PUBLISHED = (("the paper's judge, GPT-4o", 2_224), ("the paper's distilled judge", 2_160))
"""Essays of PUBLISHED_OF with people's consensus (protocols 2.11)."""
PUBLISHED_OF = 2_384


FEWEST_SHOWN = 5
"""Judgements of a part that has a row of its own; --out keeps every group."""
_WITH_SCORE = " with a judge's score"


def tables(comparison: Comparison, labels: Labels) -> Iterator[str]:
    """One after the other, to be set apart by blank lines."""
    is_named = labels.names is not None

    def table(rows: Sequence[Sequence[str]]) -> str:
        return aligned([[in_clusters(cell) if labels.is_of_suite else cell for cell in row] for row in rows])

    yield table(_agreement(comparison, has_scores=not is_named))
    if comparison.sections:
        rows = []
        for section in comparison.sections:
            people = ["", "", ""] if section.people is None else _raters_cells(section.people)
            judge = (
                ["", "", ""]
                if section.judge is None
                else [percent_cell(section.judge.exact), agreement_cell(section.judge.kappa), str(section.judge.n)]
            )
            rows.append([section.name, *people, *judge])
        sections = [["section", "people", "kappa", "judgements", "judge with people", "kappa", "judgements"], *rows]
        yield table(sections)
    if comparison.judge is not None:
        yield table(_confusion(comparison.judge, labels.names))
    large_parts = [part for part in comparison.parts if part.found.n >= FEWEST_SHOWN]
    if large_parts:
        rows = [
            [
                part.kind,
                part.name,
                percent_cell(part.found.exact),
                agreement_cell(part.found.kappa),
                *counts(part.found.exact),
            ]
            for part in large_parts
        ]
        parts = [["judge with people", "", "same score", "Cohen's kappa", "judgements", "exchanges"], *rows]
        yield table(parts)
    if len(large_parts) < len(comparison.parts):
        n = len(comparison.parts) - len(large_parts)
        yield f"{n} more axes, groups and directions have fewer than {FEWEST_SHOWN} judgements each"
    if comparison.rates:
        rate_by_group = {name: rate for name, rate in comparison.rates.items() if not name or _n(rate) >= FEWEST_SHOWN}
        rows = [_rates_row(group, rate) for group, rate in rate_by_group.items()]
        rates = [["group", "sensitivity", "positive", "specificity", "negative"], *rows]
        yield table(rates)


def summary(labels: Labels) -> str:
    """Return how many labels there are, and of what."""
    has_judge = any(judgement.judge is not None for judgement in labels.judgements)
    left_out = {
        "without one left out": labels.n_without if has_judge else None,
        "replaced by newer ones of the same person": labels.n_replaced or None,
        "of texts that a rater rejected left out": labels.n_rejected or None,
        "of refusals without a score": labels.n_unscored or None,
    }
    counted = [f"{n} {what}" for what, n in left_out.items() if n is not None]
    first = ", ".join([f"{labels.n_labels} labels{_WITH_SCORE if has_judge else ''}", *counted])
    n = len(labels.judgements)
    of = f"{n} judgement{_s(n)} of {labels.n_exchanges} exchange{_s(labels.n_exchanges)}"
    means = ": several people's labels of one count as their mean" if n < labels.n_labels and not labels.names else ""
    text = f"{first}\nthey are of {of}{means}"
    return in_clusters(text) if labels.is_of_suite else text


def share(corrected: CorrectedShare, judged: float) -> str:
    """A share of other judgements, by the judge and corrected."""
    start = f"share above the threshold: {judged:.3f} by the judge; "
    if corrected.value is None:
        return f"{start}not corrected: {by_exchange(corrected.reason)}"
    return f"{start}corrected {number_cell(corrected.value, corrected.interval)}, if its error rates are the same there"


def in_clusters(text: str) -> str:
    """The same of replies of a suite, which hang together by cluster and not by exchange."""
    return text.replace("exchange", "cluster")


def _agreement(comparison: Comparison, *, has_scores: bool) -> list[list[str]]:
    head, rows = ["agreement", "same score", "kappa", "judgements", "exchanges"], list[list[str]]()
    if comparison.people is not None:
        n_people = comparison.people.n_people
        who = "people" if n_people is None else f"{n_people} people"
        by_axis = comparison.people.by_axis
        within = ", chance by axis" if by_axis else ""
        rows.append(_raters_row(f"{who} with one another{within}", comparison.people.with_one_another))
        rows += [_raters_row(f"{who}: {axis}", raters) for axis, raters in by_axis.items()]
        if comparison.people.judge_with_each is not None:
            rows.append(_raters_row("judge with each of them", comparison.people.judge_with_each))
        head.insert(3, comparison.people.with_one_another.alpha.name)
    without_alpha = [""] * (len(head) - 5)
    if comparison.judge is not None:
        agreement = comparison.judge
        name = "judge with people" if comparison.people is None else "judge with people who agree"
        if comparison.n_decided:
            name = f"judge with the consensus, {comparison.n_decided} adjudicated"
        rows.append(
            [name, percent_cell(agreement.exact), _kappa(agreement.kappa), *without_alpha, *counts(agreement.exact)]
        )
        if has_scores:
            rows += [[name, share, "", *without_alpha, n, ""] for name, share, n in published_rows()]
    if not rows:
        return [["agreement: no judgement has two labels, nor scores from -1 to 2 on which people agree"]]
    return [head, *rows]


def published_rows() -> Iterator[tuple[str, str, str]]:
    """Name, agreement with people's consensus and essays of each judge of the paper."""
    for name, n in PUBLISHED:
        yield name, share_cell(n / PUBLISHED_OF, wilson_interval(n, PUBLISHED_OF)), f"{PUBLISHED_OF:,}"


def _raters_row(name: str, raters: Raters) -> list[str]:
    kappa = "" if raters.kappa is None else _kappa(raters.kappa)
    return [name, percent_cell(raters.exact), kappa, agreement_cell(raters.alpha), *counts(raters.exact)]


def _kappa(coefficient: Agreement) -> str:
    author = coefficient.name.partition("'")[0]
    return f"{agreement_cell(coefficient)} {author}"


def _raters_cells(raters: Raters) -> list[str]:
    return [
        percent_cell(raters.exact),
        "" if raters.kappa is None else _kappa(raters.kappa),
        f"{raters.exact.n_items:,}",
    ]


def _confusion(agreement: JudgeAgreement, names: Sequence[str] | None) -> list[list[str]]:
    labels = list(map(str, agreement.labels)) if names is None else list(names)
    rows = [[label, *map(str, row)] for label, row in zip(labels, agreement.confusion.tolist(), strict=True)]
    return [["people \\ judge", *labels], *rows]


def _rates_row(group: str, rates: ErrorRates) -> list[str]:
    se, sp = rates.sensitivity, rates.specificity
    return [group or "all", _rate(se), str(se.n), _rate(sp), str(sp.n)]


def _n(rates: ErrorRates) -> int:
    return rates.sensitivity.n + rates.specificity.n


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return "undefined"
    return number_cell(rate.value, rate.interval, rate.reason)


def percent_cell(agreement: Agreement) -> str:
    """A share in percent with its interval, or why there is none; "undefined" without a value."""
    return "undefined" if agreement.value is None else share_cell(agreement.value, agreement.interval, agreement.reason)


def share_cell(value: float, interval: Interval | None, reason: str | None = None) -> str:
    """Return a share in percent, with the interval or why there is none."""
    if interval is None:
        return f"{100 * value:.1f} % ({by_exchange(reason)})"
    return f"{100 * value:.1f} % ({100 * interval.lower:.1f} to {100 * interval.upper:.1f})"


def agreement_cell(coefficient: Agreement) -> str:
    """A coefficient with its interval, or why there is none."""
    if coefficient.value is None:
        return f"undefined ({by_exchange(coefficient.reason)})"
    return number_cell(coefficient.value, coefficient.interval, coefficient.reason)


def number_cell(value: float, interval: Interval | None, reason: str | None = None, *, signed: bool = False) -> str:
    """A number with its interval, or why there is none."""
    form = "+.3f" if signed else ".3f"
    if interval is None:
        return f"{value:{form}} ({by_exchange(reason)})"
    return f"{value:{form}} ({interval.lower:{form}} to {interval.upper:{form}})"


def counts(agreement: Agreement) -> list[str]:
    """Return the cells of the numbers of items and clusters."""
    return [f"{agreement.n_items:,}", f"{agreement.n_clusters:,}"]


def by_exchange(reason: str | None) -> str:
    """Here, exchanges are the clusters."""
    return (reason or "no interval").replace("cluster", "exchange")


def _s(n: int) -> str:
    return "" if n == 1 else "s"
