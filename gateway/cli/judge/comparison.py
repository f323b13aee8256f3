"""A judge against people, and people against one another, over judgements that hang together by exchange."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from auditors.metrics.agreement import (
    AgreeingPairs,
    Coefficient,
    Level,
    Ratings,
    agreeing_pairs,
    cohen_kappa,
    counts_of,
    fleiss_kappa,
    krippendorff_alpha,
)
from auditors.metrics.agreement_intervals import Agreement, chance_corrected, exact_agreement
from auditors.metrics.error_rates import ErrorRates, error_rates
from auditors.metrics.judge_agreement import JudgeAgreement, judge_agreement
from gateway.cli.judge.labels import Judgement

SCORES = (-1, 0, 1, 2)


class Raters(msgspec.Struct, frozen=True, kw_only=True):
    """How far some raters of the same judgements agree."""

    exact: Agreement
    kappa: Agreement | None
    """Cohen's or Fleiss'; None where raters are more than two and have not all rated everything, or give no scores."""
    alpha: Agreement


class People(msgspec.Struct, frozen=True, kw_only=True):
    """The judgements that two people or more have labelled: how far they agree, and the judge with them."""

    n_people: int | None
    """None where a label does not say whose it is."""
    with_one_another: Raters
    judge_with_each: Raters
    """Each person's label beside the judge's score: with a judge as good as a person, as high as the line above."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the judgements on which people agree, beside the judge."""

    kind: str
    """axis, group or direction."""
    name: str
    found: JudgeAgreement


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that labels say about a judge."""

    judge: JudgeAgreement | None
    """With people, on the judgements on which they agree with one another; None where labels are no scores."""
    people: People | None
    """None where no judgement has two labels."""
    parts: list[Part]
    rates: dict[str, ErrorRates]
    """By group, "" for all; by people's mean where they differ."""


def compare(judgements: Sequence[Judgement], threshold: float) -> Comparison:
    """
    Args:
        judgements: at least one.
        threshold: a score above it is positive.
    """
    are_scores = all(score in SCORES for one in judgements for score in (one.judge, *one.people))
    agreed = [one for one in judgements if one.is_agreed] if are_scores else []
    rates = {"": _rates(judgements, threshold)}
    rates |= {name: _rates(of, threshold) for name, of in _by(judgements, lambda one: one.group)}
    return Comparison(
        judge=_against(agreed) if agreed else None,
        people=_people([one for one in judgements if len(one.people) > 1], "ordinal" if are_scores else "interval"),
        parts=_parts(agreed),
        rates=rates,
    )


def _parts(agreed: Sequence[Judgement]) -> list[Part]:
    kinds: dict[str, Callable[[Judgement], str | None]] = {
        "axis": lambda one: one.axis,
        "group": lambda one: one.group,
        "direction": lambda one: f"{one.group} against {one.reference}" if one.group and one.reference else None,
    }
    parts = {kind: _by(agreed, name) for kind, name in kinds.items()}
    return [
        Part(kind=kind, name=name, found=_against(of))
        for kind, found in parts.items()
        for name, of in found
        if len(of) < len(agreed) or kind != "axis"
    ]


def _by(judgements: Iterable[Judgement], name: Callable[[Judgement], str | None]) -> list[tuple[str, list[Judgement]]]:
    found: dict[str, list[Judgement]] = {}
    for one in judgements:
        if key := name(one):
            found.setdefault(key, []).append(one)
    return sorted(found.items())


def _against(agreed: Sequence[Judgement]) -> JudgeAgreement:
    people, judge = [int(one.people[0]) for one in agreed], [int(one.judge) for one in agreed]
    return judge_agreement(people, judge, [one.exchange for one in agreed], rng=_rng(), labels=SCORES)


def _rates(judgements: Sequence[Judgement], threshold: float) -> ErrorRates:
    return error_rates(
        [one.person > threshold for one in judgements],
        [one.judge > threshold for one in judgements],
        [one.exchange for one in judgements],
    )


def _people(several: Sequence[Judgement], level: Level) -> People | None:
    if not several:
        return None
    names = {name for one in several for name in one.annotators}
    return People(
        n_people=None if None in names else len(names),
        with_one_another=_with_one_another(several, level),
        judge_with_each=_judge_with_each(several, level),
    )


def _with_one_another(several: Sequence[Judgement], level: Level) -> Raters:
    values = np.array([score for one in several for score in one.people])
    items = np.repeat(np.arange(len(several)), [len(one.people) for one in several])
    ratings, exchanges = Ratings(values, items), [one.exchange for one in several]
    kappa = None if level == "interval" else _kappa(several, ratings)
    return Raters(
        exact=exact_agreement(agreeing_pairs(ratings), exchanges),
        kappa=None if kappa is None else chance_corrected(kappa, exchanges, rng=_rng()),
        alpha=chance_corrected(krippendorff_alpha(ratings, level), exchanges, rng=_rng()),
    )


def _kappa(several: Sequence[Judgement], ratings: Ratings) -> Coefficient | None:
    """Cohen's for the same two people throughout, Fleiss' where every judgement has as many labels."""
    names = {frozenset(one.annotators) for one in several}
    if len(names) == 1 and len(pair := sorted(filter(None, next(iter(names))))) == 2:
        labels = [dict(zip(one.annotators, one.people, strict=True)) for one in several]
        return cohen_kappa(*([one[name] for one in labels] for name in pair))
    if len({len(one.people) for one in several}) == 1:
        return fleiss_kappa(*counts_of(ratings))
    return None


def _judge_with_each(several: Sequence[Judgement], level: Level) -> Raters:
    """Each pair of the judge and a person as two raters of one item; the exchange keeps them together."""
    equal = np.array([sum(one.judge == score for score in one.people) for one in several], dtype=np.float64)
    sizes = np.array([len(one.people) for one in several])
    pairs = AgreeingPairs(equal, sizes.astype(np.float64), np.arange(len(several)))
    people = np.array([score for one in several for score in one.people])
    judge = np.repeat([one.judge for one in several], sizes)
    by_pair = np.repeat([one.exchange for one in several], sizes)
    both = Ratings.of_table(np.stack([people, judge], axis=1))
    alpha = chance_corrected(krippendorff_alpha(both, level), by_pair, rng=_rng())
    kappa = None if level == "interval" else chance_corrected(cohen_kappa(people, judge), by_pair, rng=_rng())
    return Raters(exact=exact_agreement(pairs, [one.exchange for one in several]), kappa=kappa, alpha=alpha)


def _rng() -> np.random.Generator:
    """The same draws for every number, so that a file always gives the same intervals."""
    return np.random.default_rng(0)
