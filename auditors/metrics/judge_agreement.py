"""How well a judge agrees with people on the same texts: the confusion matrix, exact agreement, Cohen's kappa."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.agreement import AgreeingPairs, cohen_kappa
from auditors.metrics.agreement_intervals import Agreement, chance_corrected, exact_agreement


@dataclass(frozen=True)
class JudgeAgreement:
    """A judge beside a reference, score by score."""

    labels: tuple[int, ...]
    confusion: NDArray[np.int64]
    """(n_labels, n_labels) counts; row the reference's label, column the judge's."""
    exact: Agreement
    kappa: Agreement

    @property
    def n(self) -> int:
        return int(self.confusion.sum())


def judge_agreement(
    reference: Sequence[int],
    judge: Sequence[int],
    clusters: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    labels: Sequence[int] = (-1, 0, 1, 2),
    confidence_level: float = 0.95,
) -> JudgeAgreement:
    """Compares a judge with a reference, judgement by judgement.

    Args:
        reference: labels of the reference, e.g. people's consensus.
        judge: the judge's labels of the same texts.
        clusters: (n,) what each judgement hangs together with, e.g. its exchange; None: each stands alone.
        rng: source of the resamples of kappa.
        labels: every label there is, in order: final scores by default, (0, 1) for refusals.
        confidence_level: in (0, 1).

    Raises: ValueError for sequences of different length or an unknown label.
    Source: Cohen 1960, doi:10.1177/001316446002000104; use: protocols 2.11. Deviation: none.
    """
    unknown = sorted({*reference, *judge} - set(labels))
    if unknown:
        raise ValueError(f"labels must be among {tuple(labels)}, not {unknown[0]}")
    if len(reference) != len(judge):
        raise ValueError(f"a judge is compared text by text: {len(reference)} and {len(judge)} labels differ in number")
    one, other = np.asarray(reference, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    pairs = AgreeingPairs((one == other).astype(np.float64), np.ones(len(one)), np.arange(len(one)))
    return JudgeAgreement(
        tuple(labels),
        _confusion(reference, judge, labels),
        exact_agreement(pairs, clusters, confidence_level=confidence_level),
        chance_corrected(cohen_kappa(one, other), clusters, rng=rng, confidence_level=confidence_level),
    )


def _confusion(reference: Sequence[int], judge: Sequence[int], labels: Sequence[int]) -> NDArray[np.int64]:
    place = {label: index for index, label in enumerate(labels)}
    rows, columns = ([place[label] for label in one] for one in (reference, judge))
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (rows, columns), 1)
    return confusion
