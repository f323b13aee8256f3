"""The encoder of a local embedder on OpenVINO in single precision: the same vectors for less processor time. It is
converted from torch's and compared with it when it is loaded. Quantised ones move distances too far
(docs/evidence/scaling.md).
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from auditors.clients.encoder_check import ConversionError, distances, refuse_others

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

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
    """Replace the forward pass of the model's encoder. Call it in any thread but the main one: OpenVINO 2026 leaves the
    calling thread with an alternate signal stack that may be unmapped later. Raises ConversionError when the package is
    missing, the model cannot be converted, or its distances change.
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
