"""The encoder of a local embedder on an NVIDIA GPU, in single precision."""

from typing import TYPE_CHECKING

from auditors.clients.encoder_check import ConversionError, distances, refuse_others

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def move_to_cuda(model: "SentenceTransformer", device: str = "cuda") -> None:
    """Changes the model: moves it to the first GPU that the process may see (CUDA_VISIBLE_DEVICES). Raises
    ConversionError when a GPU is missing, it cannot be used, or the model's distances change on it.
    """
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
