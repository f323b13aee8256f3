"""A local embedder's encoder on OpenVINO, single precision, compared with torch's; quantised ones err too far."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
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


_TRACED = ("Hello world", "A longer text, so that there is padding in what is traced")


def without_telemetry() -> Any:
    """The package; imported in any other way it calls its maker. Raises ConversionError where it is missing."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as if it were not installed
    try:
        import openvino
    except ImportError as exc:
        raise ConversionError('backend "openvino" needs its package: pip install "biasgate[openvino]"') from exc
    return openvino


def move_to_openvino(model: "SentenceTransformer", threads: int) -> None:
    """Replace the encoder's forward pass; not in the main thread, as OpenVINO 2026 leaves it with an alternate signal
    stack that may be unmapped later. Raises ConversionError: package missing, not convertible, or other distances.
    """
    openvino = without_telemetry()
    expected = distances(model)
    try:
        encoder: Any = model[0].auto_model
        example = dict(model.tokenizer([*_TRACED], padding=True, return_tensors="pt"))
        with _quiet():
            converted = openvino.convert_model(encoder, example_input=example)
        # As it would choose by itself, a processor that can computes in bfloat16.
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
        compiled = openvino.Core().compile_model(converted, "CPU", settings)
        encoder.forward = _forward(compiled.create_infer_request(), [*example])
        actual = distances(model)
    except Exception as exc:  # of either library, which raise whatever they like
        raise ConversionError(f"OpenVINO cannot run it: {type(exc).__name__}: {exc}") from exc
    refuse_others(actual, expected, "on OpenVINO")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Tracing warns of what it takes for a constant; the comparison finds whether it is one."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # the library has no types for it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)


def _forward(request: Any, names: list[str]) -> Any:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    def forward(**inputs: "torch.Tensor") -> BaseModelOutput:
        outputs = request.infer({name: inputs[name].numpy() for name in names})
        return BaseModelOutput(last_hidden_state=torch.from_numpy(np.array(outputs[0])))

    return forward
