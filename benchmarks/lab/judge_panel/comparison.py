"""Compares a panel's verdicts: with each other, by writer, by order; intervals over clusters of items (a question)."""

from collections.abc import Sequence
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.labelling.forms import Reading
from auditors.metrics.intervals import Agreement, Interval
from auditors.metrics.spread import ratio
from benchmarks.lab.distillation.evaluation import number_names, seeded_rng
from benchmarks.lab.judge_panel.asking import Panelled, Verdicts
from benchmarks.lab.metrics.agreement import (
    Ratings,
    agreeing_share,
    bootstrap_interval,
    chance_corrected,
    cohen_kappa,
    grouped,
    krippendorff_alpha,
)

Floats = NDArray[np.float64]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two judges, on the replies that both could score."""

    judges: tuple[str, str]
    exact: Agreement
    kappa: Agreement


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One judge, asked twice about each reply, the second time in the other order."""

    judge: str
    exact: Agreement
    """Share of replies with the same verdict both times."""


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """One judge about one writer."""

    judge: str
    biased: Agreement
    """Share of the replies that it could score with a score other than 0."""


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """One judge about its own replies; without a value or an interval `reason` says why."""

    judge: str
    value: float | None
    interval: Interval | None
    n: int
    """Its own replies, of those that every judge could score."""
    n_clusters: int
    reason: str | None = None


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """The whole comparison."""

    pairs: list[Pair]
    alpha: Agreement
    """Krippendorff's alpha of all judges."""
    called: dict[str, list[Called]]
    """Share of replies called biased by each judge, by writer."""
    own: list[Own]
    """Excess of biased verdicts by other judges on a judge's own replies, less that on other replies; in [-2, 2]."""
    orders: list[Order]
    n_unread: dict[str, int]
    """Replies that a judge could not score, questions without a reply among them; in the usual order."""


def compare(replies: Sequence[Panelled], verdicts: Sequence[Verdicts]) -> Panel:
    """`verdicts`: of two judges or more, each of all replies."""
    clusters = number_names([reply.cluster for reply in replies])
    scores = np.array([[_score(reading) for reading in judge.first] for judge in verdicts])
    pairs = [
        Pair(
            judges=(verdicts[a].judge, verdicts[b].judge),
            exact=_same(scores[a], scores[b], clusters),
            kappa=chance_corrected(cohen_kappa(scores[a], scores[b]), clusters, rng=seeded_rng()),
        )
        for a, b in combinations(range(len(verdicts)), 2)
    ]
    alpha = krippendorff_alpha(Ratings.of_table(scores.T), "ordinal")
    writers = list(dict.fromkeys(reply.writer for reply in replies))
    is_of = {writer: np.array([reply.writer == writer for reply in replies]) for writer in writers}
    return Panel(
        pairs=pairs,
        alpha=chance_corrected(alpha, clusters, rng=seeded_rng()),
        called={
            writer: [
                Called(judge=judge.judge, biased=_biased(mine[is_of[writer]], clusters[is_of[writer]]))
                for judge, mine in zip(verdicts, scores, strict=True)
            ]
            for writer in writers
        },
        own=[
            _own(judge.judge, number, scores, is_of[judge.judge], clusters)
            for number, judge in enumerate(verdicts)
            if judge.judge in is_of and len(writers) > 1
        ],
        orders=[
            Order(
                judge=judge.judge, exact=_same(mine, np.array([_score(reading) for reading in judge.swapped]), clusters)
            )
            for judge, mine in zip(verdicts, scores, strict=True)
            if judge.swapped is not None and len(judge.swapped) == len(replies)
        ],
        n_unread={judge.judge: int(np.isnan(mine).sum()) for judge, mine in zip(verdicts, scores, strict=True)},
    )


def _score(reading: Reading | None) -> float:
    """NaN where there is none: unread, or a refusal in a form that gives it no score."""
    return reading.value if reading is not None and isinstance(reading.value, float) else np.nan


def _same(first: Floats, other: Floats, clusters: NDArray[np.intp]) -> Agreement:
    both = ~(np.isnan(first) | np.isnan(other))
    return agreeing_share(first[both] == other[both], clusters[both])


def _biased(scores: Floats, clusters: NDArray[np.intp]) -> Agreement:
    is_read = ~np.isnan(scores)
    return agreeing_share(scores[is_read] != 0, clusters[is_read])


def _own(judge: str, number: int, scores: Floats, is_own: NDArray[np.bool_], clusters: NDArray[np.intp]) -> Own:
    """Over the replies that every judge could score."""
    is_read = ~np.isnan(scores).any(axis=0)
    is_biased = (scores != 0).astype(np.float64)
    spared = (np.delete(is_biased, number, axis=0).mean(axis=0) - is_biased[number]) * is_read
    columns = [spared * is_own, is_own & is_read, spared * ~is_own, ~is_own & is_read]
    rows = grouped(np.stack(columns, axis=1).astype(np.float64), clusters)
    n = int(rows[:, 1].sum())
    if not (n and rows[:, 3].sum()):
        reason: str | None = "every judge could score no reply of this model, or none of the other models"
        return Own(judge=judge, value=None, interval=None, n=n, n_clusters=len(rows), reason=reason)
    differ, on_which = rows[:, 0] - rows[:, 2], "clusters on which it differs from the others"
    interval, reason = bootstrap_interval(rows, differ, _difference, on_which, seeded_rng())
    value = float(_difference(rows.sum(axis=0)))
    return Own(judge=judge, value=value, interval=interval, n=n, n_clusters=len(rows), reason=reason)


def _difference(sums: Floats) -> Floats:
    return ratio(sums[..., 0], sums[..., 1]) - ratio(sums[..., 2], sums[..., 3])
