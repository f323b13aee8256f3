"""A judge against people, and people against one another, over judgements that hang together by exchange."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from auditors.metrics.intervals import Agreement
from benchmarks.lab.metrics.agreement import (
    AgreeingPairs,
    Coefficient,
    JudgeAgreement,
    Level,
    Ratings,
    agreeing_pairs,
    chance_corrected,
    cohen_kappa,
    counts_of,
    exact_agreement,
    fleiss_kappa,
    judge_agreement,
    krippendorff_alpha,
    stratified,
)
from benchmarks.lab.metrics.error_rates import ErrorRates, error_rates
from gateway.features.lab.judge.labels import Judgement, Labels

SCORES = (-1, 0, 1, 2)


class Raters(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of some raters of the same judgements."""

    exact: Agreement
    kappa: Agreement | None
    """Cohen's or Fleiss'; None where raters are more than two and have not all rated everything, or give no scores."""
    alpha: Agreement


class People(msgspec.Struct, frozen=True, kw_only=True):
    """The judgements that two people or more have labelled: how far they agree, and the judge with them."""

    n_people: int | None
    """Number of people; None where a label does not say whose it is."""
    with_one_another: Raters
    by_axis: dict[str, Raters]
    """Agreement with one another by axis, where labels are names of several axes: each axis offers names of its own."""
    judge_with_each: Raters | None
    """Agreement of each person with the judge; a judge as good reaches `with_one_another`. None without a judge."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the judgements on which people agree, compared with the judge."""

    kind: str
    """axis, group or direction."""
    name: str
    found: JudgeAgreement


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One part of what was judged: a section of an essay, or whether it is a refusal."""

    name: str
    people: Raters | None
    """Agreement of people; None unless some judgement has labels of two people."""
    judge: JudgeAgreement | None
    """Agreement of the judge with the consensus; None without a judge."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that labels say about people, and about a judge."""

    judge: JudgeAgreement | None
    """Agreement with people's consensus; None without a judge, and where labels are neither scores nor names."""
    n_decided: int
    people: People | None
    """Agreement of people; None unless some judgement has two labels."""
    parts: list[Part]
    sections: list[Section]
    rates: dict[str, ErrorRates]
    """Error rates by group, "" for all; by people's mean where they differ. Empty without a judge's scores."""


def compare(labels: Labels, threshold: float) -> Comparison:
    """`labels`: with at least one judgement. `threshold`: a score above it is positive."""
    judgements = labels.judgements
    judged = [judgement for judgement in judgements if judgement.judge is not None]
    scores = None if labels.names is None else tuple(range(len(labels.names)))
    if scores is None and all(value in SCORES for judgement in judgements for value in _values(judgement)):
        scores = SCORES
    agreed = [] if scores is None else [judgement for judgement in judged if judgement.consensus is not None]
    level: Level = "nominal" if labels.names is not None else "interval" if scores is None else "ordinal"
    return Comparison(
        judge=_against(agreed, scores) if agreed and scores else None,
        n_decided=sum(judgement.decided is not None for judgement in agreed),
        people=_people([judgement for judgement in judgements if len(judgement.people) > 1], level),
        parts=_parts(agreed, scores) if scores else [],
        sections=_sections(judgements),
        rates=_all_rates(judged, threshold) if labels.names is None else {},
    )


def _values(judgement: Judgement) -> list[float]:
    return [value for value in (judgement.judge, judgement.decided, *judgement.people) if value is not None]


def _all_rates(judged: Sequence[Judgement], threshold: float) -> dict[str, ErrorRates]:
    if not judged:
        return {}
    by_group = {name: _rates(of, threshold) for name, of in _by(judged, lambda judgement: judgement.group)}
    return {"": _rates(judged, threshold)} | by_group


def _sections(judgements: Sequence[Judgement]) -> list[Section]:
    sections = []
    for name in dict.fromkeys(name for judgement in judgements for name in judgement.parts):
        named = [(whole, whole.parts[name]) for whole in judgements if name in whole.parts]
        parts = [msgspec.structs.replace(whole, **msgspec.structs.asdict(part)) for whole, part in named]
        several = [part for part in parts if len(part.people) > 1]
        agreed = [part for part in parts if part.judge is not None and part.consensus is not None]
        section = Section(
            name=name,
            people=_with_one_another(several, "ordinal") if several else None,
            judge=_against(agreed, SCORES) if agreed else None,
        )
        sections.append(section)
    return sections


def _parts(agreed: Sequence[Judgement], scores: Sequence[int]) -> list[Part]:
    kinds: dict[str, Callable[[Judgement], str | None]] = {
        "axis": lambda judgement: judgement.axis,
        "group": lambda judgement: judgement.group,
        "direction": lambda judgement: (
            f"{judgement.group} against {judgement.reference}" if judgement.group and judgement.reference else None
        ),
    }
    parts = {kind: _by(agreed, name) for kind, name in kinds.items()}
    return [
        Part(kind=kind, name=name, found=_against(of, scores))
        for kind, part in parts.items()
        for name, of in part
        if len(of) < len(agreed) or kind != "axis"
    ]


def _by(judgements: Iterable[Judgement], name: Callable[[Judgement], str | None]) -> list[tuple[str, list[Judgement]]]:
    by_name: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        if key := name(judgement):
            by_name.setdefault(key, []).append(judgement)
    return sorted(by_name.items())


def _against(agreed: Sequence[Judgement], scores: Sequence[int]) -> JudgeAgreement:
    people = [int(judgement.consensus or 0) for judgement in agreed]
    judge = [int(judgement.judge or 0) for judgement in agreed]
    exchanges, strata = [judgement.exchange for judgement in agreed], _strata(agreed, scores == SCORES)
    return judge_agreement(people, judge, exchanges, rng=_rng(), labels=scores, strata=strata)


def _strata(judgements: Sequence[Judgement], are_scores: bool) -> list[str]:
    """Return what each judgement offers: scores are the same everywhere, names are those of the judgement's axis."""
    return ["" if are_scores else judgement.axis or "" for judgement in judgements]


def _rates(judgements: Sequence[Judgement], threshold: float) -> ErrorRates:
    return error_rates(
        [judgement.person > threshold for judgement in judgements],
        [(judgement.judge or 0.0) > threshold for judgement in judgements],
        [judgement.exchange for judgement in judgements],
    )


def _people(several: Sequence[Judgement], level: Level) -> People | None:
    if not several:
        return None
    names = {name for judgement in several for name in judgement.annotators}
    axes = _by(several, lambda judgement: judgement.axis) if level == "nominal" else []
    return People(
        n_people=None if None in names else len(names),
        with_one_another=_with_one_another(several, level),
        by_axis={axis: _with_one_another(of, level) for axis, of in axes} if len(axes) > 1 else {},
        judge_with_each=_judge_with_each([judgement for judgement in several if judgement.judge is not None], level),
    )


def _with_one_another(several: Sequence[Judgement], level: Level) -> Raters:
    values = np.array([score for judgement in several for score in judgement.people])
    items = np.repeat(np.arange(len(several)), [len(judgement.people) for judgement in several])
    ratings, exchanges = Ratings(values, items), [judgement.exchange for judgement in several]
    strata = _strata(several, level != "nominal")
    kappa = None if level == "interval" else _kappa(several, ratings, strata)
    return Raters(
        exact=exact_agreement(agreeing_pairs(ratings), exchanges),
        kappa=None if kappa is None else chance_corrected(kappa, exchanges, rng=_rng()),
        alpha=chance_corrected(
            stratified(strata, lambda mask: krippendorff_alpha(ratings.of_items(mask), level)), exchanges, rng=_rng()
        ),
    )


def _kappa(several: Sequence[Judgement], ratings: Ratings, strata: Sequence[str]) -> Coefficient | None:
    """Cohen's for the same two people throughout, Fleiss' where every judgement has as many labels."""
    names = {frozenset(judgement.annotators) for judgement in several}
    if len(names) == 1 and len(pair := sorted(filter(None, next(iter(names))))) == 2:
        labels = [dict(zip(judgement.annotators, judgement.people, strict=True)) for judgement in several]
        first, second = (np.array([label[name] for label in labels]) for name in pair)
        return stratified(
            strata, lambda mask: cohen_kappa(np.where(mask, first, np.nan), np.where(mask, second, np.nan))
        )
    if len({len(judgement.people) for judgement in several}) == 1:
        return stratified(strata, lambda mask: fleiss_kappa(*counts_of(ratings.of_items(mask))))
    return None


def _judge_with_each(several: Sequence[Judgement], level: Level) -> Raters | None:
    """Take each pair of the judge and a person as two raters of the same item; the exchange keeps them together."""
    if not several:
        return None
    equal = np.array(
        [sum(judgement.judge == score for score in judgement.people) for judgement in several], dtype=np.float64
    )
    sizes = np.array([len(judgement.people) for judgement in several])
    pairs = AgreeingPairs(equal, sizes.astype(np.float64), np.arange(len(several)))
    people = np.array([score for judgement in several for score in judgement.people])
    judge = np.repeat([judgement.judge for judgement in several], sizes)
    by_pair = np.repeat([judgement.exchange for judgement in several], sizes)
    both = Ratings.of_table(np.stack([people, judge], axis=1))
    strata = np.repeat(_strata(several, level != "nominal"), sizes).tolist()
    alpha = stratified(strata, lambda mask: krippendorff_alpha(both.of_items(mask), level))
    kappa = None
    if level != "interval":
        kappa = chance_corrected(
            stratified(strata, lambda mask: cohen_kappa(np.where(mask, people, np.nan), np.where(mask, judge, np.nan))),
            by_pair,
            rng=_rng(),
        )
    return Raters(
        exact=exact_agreement(pairs, [judgement.exchange for judgement in several]),
        kappa=kappa,
        alpha=chance_corrected(alpha, by_pair, rng=_rng()),
    )


def _rng() -> np.random.Generator:
    """The same draws for every number, so that a file always gives the same intervals."""
    return np.random.default_rng(0)
