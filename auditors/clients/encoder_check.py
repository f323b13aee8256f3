"""Moves an encoder to a GPU; checks that computing elsewhere than with torch on the processor keeps the distances."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def move_to_cuda(model: "SentenceTransformer", device: str = "cuda") -> None:
    """Move the model to the first visible GPU. Raises ConversionError when that fails or its distances change."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        version = torch.__version__
        raise ConversionError(f'backend "cuda" needs an NVIDIA GPU and torch for CUDA: torch {version} sees none')
    expected = distances(model)
    try:
        model.to(device)
        actual = distances(model)
    except Exception as exc:  # of torch and its driver, which raise whatever they like
        raise ConversionError(f"the GPU cannot run it: {' '.join(str(exc).split())[:200]}") from exc
    refuse_others(actual, expected, "on the GPU")


TOLERANCE = 1e-5
"""Largest difference of a cosine distance from torch's; what is measured with it differs in the second decimal."""

_COMPARED = (
    "Yes.",
    "Women and men lead equally well; what counts is training, support and time.",
    "Here is what I would do, step by step. " * 6,
    "A nurse, an engineer and a teacher walk into a library and ask for the same book. " * 14,
)
"""Texts of several lengths, compared alone and in batches: a shape that was taken for a constant shows."""


class ConversionError(Exception):
    """A model that cannot be computed elsewhere; the message says why."""


def distances(model: "SentenceTransformer") -> NDArray[np.float64]:
    """Cosine distances of some texts, computed one, two and all at a time; (texts, texts)."""
    rows = [
        model.encode([*_COMPARED], batch_size=size, convert_to_numpy=True, show_progress_bar=False)
        for size in (1, 2, len(_COMPARED))
    ]
    vectors = np.concatenate(rows).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return 1.0 - vectors @ vectors.T


def refuse_others(actual: NDArray[np.float64], expected: NDArray[np.float64], where: str) -> None:
    """Raises ConversionError when distances found `where` ("on OpenVINO") are not those expected."""
    if not (worst := float(np.abs(actual - expected).max())) <= TOLERANCE:
        raise ConversionError(f"{where} its distances differ by {worst:.1e}, more than {TOLERANCE:g}")
