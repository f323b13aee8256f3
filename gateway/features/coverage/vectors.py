"""Embeds a suite's questions, once for each model and content, and keeps the vectors with the data sets."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from auditors.types import Embedder
from benchmarks.datasets import published
from benchmarks.run.stopping import in_thread
from gateway.features.coverage.questions import Questions
from gateway.features.coverage.resemblance import Vectors

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""Texts put to the embedder at a time: live auditors that use it come in between."""
SAME = 0.999
"""Cosine of a kept vector with one of the same text computed now, if the model behind the name is the same."""


async def vectors_of(
    questions: Questions, embedder: Embedder, data_dir: Path | None, checkpoint: Callable[[], None]
) -> Vectors:
    """Return (n, dim) unit vectors, kept or computed. Raises CompletionError or ValueError as the embedder does."""
    texts = [question.text for question in questions.chosen]
    digest = hashlib.sha256(f"{embedder.name}\n{questions.digest}".encode()).hexdigest()
    path = published.home(data_dir) / "embeddings" / f"{questions.suite}-{digest[:24]}.npy"
    stored = await in_thread(_read, path, len(texts))
    if stored is not None:
        first = await embedder.embed(texts[:1])
        if first.shape[1] == stored.shape[1] and float(first[0] @ stored[0]) > SAME:
            return stored
    computed = await embedded(texts, embedder, checkpoint)
    await in_thread(_keep, path, questions.suite, computed)
    return computed


async def embedded(texts: Sequence[str], embedder: Embedder, checkpoint: Callable[[], None]) -> Vectors:
    """(n, dim) unit vectors; `checkpoint` is called before each batch, and may raise."""
    parts: list[Vectors] = []
    for start in range(0, len(texts), AT_ONCE):
        checkpoint()
        parts.append(await embedder.embed(texts[start : start + AT_ONCE]))
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


async def embedded_where_possible(
    texts: Sequence[str], embedder: Embedder, checkpoint: Callable[[], None]
) -> tuple[Vectors, list[int]]:
    """Embed the texts; return vectors and the indices of their texts: a bad vector costs a single text."""
    parts: list[Vectors] = []
    indices: list[int] = []
    for start in range(0, len(texts), AT_ONCE):
        checkpoint()
        places = [*range(start, min(start + AT_ONCE, len(texts)))]
        try:
            batches = [(places, await embedder.embed([texts[place] for place in places]))]
        except ValueError:
            batches = [batch for place in places if (batch := await _alone(place, texts[place], embedder)) is not None]
        indices += [place for own, _ in batches for place in own]
        parts += [vectors for _, vectors in batches]
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32), indices


async def _alone(place: int, text: str, embedder: Embedder) -> tuple[list[int], Vectors] | None:
    try:
        return [place], await embedder.embed([text])
    except ValueError:
        return None


def _read(path: Path, n: int) -> Vectors | None:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    is_whole = loaded.ndim == 2 and len(loaded) == n and loaded.dtype == np.float32 and bool(np.isfinite(loaded).all())
    return loaded if is_whole and n else None


def _keep(path: Path, suite: str, vectors: Vectors) -> None:
    """Keeps the vectors in place of this suite's and model's others; a full disk costs a computation."""
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.save(file, vectors)
        part.replace(path)
        for old in path.parent.glob(f"{suite}-{'?' * 24}.npy"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError as exc:
        logger.warning("embeddings of %s cannot be kept: %s: they are computed again each time", suite, exc)
