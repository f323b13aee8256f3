"""Logistic regression over embeddings: fitted on part one, penalty and threshold chosen on two, measured on three."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from auditors.metrics.clustered import cluster_wilson
from auditors.metrics.intervals import Interval
from auditors.metrics.ranking import clustered_auc
from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError, decode_lines

MOST_BYTES = 256 * 1024 * 1024
FEWEST = 10
"""Clusters of each label in each part: with fewer nothing could be said of what the head does."""
Part = Literal["train", "tune", "held_out"]
SHARES: dict[Part, float] = {"train": 0.5, "tune": 0.2, "held_out": 0.3}


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    text: str
    biased: bool
    cluster: str | None = None
    """Examples with the same value were derived from each other or from a common source; unset: the text alone."""

    @property
    def key(self) -> str:
        return " ".join(self.text.split()).casefold() if self.cluster is None else self.cluster


class Examples(msgspec.Struct, frozen=True):
    examples: tuple[Example, ...]
    sha256: str
    """sha256 of the file."""


def read_examples(path: Path) -> Examples:
    """Raises BenchmarkError for a file that cannot be trained on, with the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BenchmarkError(f"{path}: larger than {MOST_BYTES} bytes: train on a part of it")
        body = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
    examples, labels = [], dict[str, bool]()
    form = 'each line is {"text": ..., "biased": true|false, "cluster": optional}'
    for place, example in decode_lines(body, Example, path, form):
        if not example.text.strip():
            raise BenchmarkError(f"{place}: the text is empty")
        if labels.setdefault(example.text, example.biased) != example.biased:
            raise BenchmarkError(f"{place}: this text is there with the other label too: decide which is right")
        examples.append(example)
    return Examples(tuple(examples), hashlib.sha256(body).hexdigest())


def split(examples: Examples, seed: int) -> dict[Part, list[Example]]:
    """Each cluster in one part, by a hash. Raises BenchmarkError where a part has too few of a label."""
    parts: dict[Part, list[Example]] = {"train": [], "tune": [], "held_out": []}
    for example in examples.examples:
        drawn = int.from_bytes(hashlib.sha256(f"{seed}\0{example.key}".encode(errors="replace")).digest()[:8]) / 2**64
        train_end = SHARES["train"]
        part: Part = "train" if drawn < train_end else "tune" if drawn < train_end + SHARES["tune"] else "held_out"
        parts[part].append(example)
    for part, members in parts.items():
        n = Counter(label for label, _ in {(member.biased, member.key) for member in members})
        if min(n[True], n[False]) < FEWEST:
            raise BenchmarkError(
                f"the part {part} has {n[True]} clusters of biased and {n[False]} of other texts, and needs {FEWEST} "
                "of each: give more examples, or clusters that are smaller"
            )
    return parts


Floats = NDArray[np.float64]

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties of the squared weights of each example; that with the smallest loss on part two is taken."""


@dataclass(frozen=True)
class Trained:
    weights: Floats
    """(dim,)"""
    bias: float
    penalty: float
    threshold: float
    auc: tuple[float, Interval] | None
    """Area under the ROC curve on the third part, as are sensitivity and specificity."""
    sensitivity: tuple[float, Interval] | None
    """Share of the biased texts at or above the threshold."""
    specificity: tuple[float, Interval] | None
    """Share of the other texts below it."""


def train(embeddings: dict[Part, Floats], parts: dict[Part, list[Example]], *, specificity: float) -> Trained:
    """The head for unit-length embeddings (n, dim). `specificity`: share of unbiased texts to leave alone, at least."""
    labels = {part: np.array([member.biased for member in members]) for part, members in parts.items()}
    fits = [(_fitted(embeddings["train"], labels["train"], penalty), penalty) for penalty in PENALTIES]
    losses = []
    for theta, _ in fits:
        margins = np.where(labels["tune"], 1.0, -1.0) * (embeddings["tune"] @ theta[:-1] + theta[-1])
        losses.append(-float(sum(log_expit(margins)[of].mean() for of in (labels["tune"], ~labels["tune"]))))
    fit, penalty = fits[int(np.argmin(losses))]
    tuned = _probabilities(fit, embeddings["tune"])
    threshold = _threshold(tuned, labels["tune"], specificity)
    scores, truth, held_out = _probabilities(fit, embeddings["held_out"]), labels["held_out"], parts["held_out"]
    fires = scores >= threshold
    keys = [example.key for example in held_out]
    return Trained(
        weights=fit[:-1],
        bias=float(fit[-1]),
        penalty=penalty,
        threshold=threshold,
        auc=clustered_auc(scores, truth, keys),
        sensitivity=_share(fires, truth, keys),
        specificity=_share(~fires, ~truth, keys),
    )


def _fitted(embeddings: Floats, labels: NDArray[np.bool_], penalty: float) -> Floats:
    """(dim + 1,) weights and bias, by L-BFGS; both labels weigh the same, whatever their numbers."""
    signs = np.where(labels, 1.0, -1.0)
    importance = np.where(labels, 0.5 / labels.sum(), 0.5 / (~labels).sum())

    def objective(theta: Floats) -> tuple[float, Floats]:
        margins = signs * (embeddings @ theta[:-1] + theta[-1])
        slopes = -importance * signs * expit(-margins)
        value = -float(importance @ log_expit(margins)) + penalty * float(theta[:-1] @ theta[:-1])
        return value, np.append(embeddings.T @ slopes + 2 * penalty * theta[:-1], slopes.sum())

    return np.asarray(minimize(objective, np.zeros(embeddings.shape[1] + 1), jac=True, method="L-BFGS-B").x)


def _probabilities(theta: Floats, embeddings: Floats) -> Floats:
    return np.asarray(expit(embeddings @ theta[:-1] + theta[-1]))


def _threshold(scores: Floats, labels: NDArray[np.bool_], specificity: float) -> float:
    """The middle of the gap with the largest sensitivity + specificity (enough of the latter); ties: the widest."""
    ordered = np.append(np.unique(scores), 2.0)  # beyond all of them
    middles, gaps = (ordered[1:] + ordered[:-1]) / 2, np.diff(np.minimum(ordered, 1.0))
    alone = np.searchsorted(np.sort(scores[~labels]), middles) / (~labels).sum()
    missed = np.searchsorted(np.sort(scores[labels]), middles) / labels.sum()
    enough = np.flatnonzero(alone >= specificity)
    best = enough[np.lexsort((gaps[enough], (alone - missed)[enough]))[-1]]
    return min(float(middles[best]), 1.0)


def _share(hits: NDArray[np.bool_], among: NDArray[np.bool_], keys: Sequence[str]) -> tuple[float, Interval] | None:
    _, places = np.unique(np.array(keys, dtype=object).astype(str), return_inverse=True)
    parts, wholes = np.bincount(places, hits & among), np.bincount(places, among)
    interval = cluster_wilson(parts.astype(np.float64), wholes.astype(np.float64))
    return None if interval is None else (float(parts.sum() / wholes.sum()), interval)
