"""The base model of an adapter: what its files say of its size, and their fingerprint."""

import hashlib
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.errors import BenchmarkError

CONFIG = "config.json"
_LONGEST_HEADER_BYTES = 100 * 1024 * 1024
"""Longest header of a safetensors file; the format allows no more."""
_BLOCK_BYTES = 1 << 20
_FINGERPRINTED = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class BaseModel(NamedTuple):
    """A model in a directory, as its configuration and the heads of its weight files describe it."""

    path: Path
    architecture: str
    n_parameters: int
    hidden: int
    intermediate: int
    layers: int
    vocabulary: int
    context: int
    """Most tokens of a prompt and its answer."""
    linear: tuple[tuple[int, int], ...]
    """(inputs, outputs) of every matrix of its layers: what gets an adapter."""


def describe(path: Path) -> BaseModel:
    """Reads heads only, no weights. Raises BenchmarkError for a directory without a model in safetensors."""
    config = _config(path)
    shapes = dict(_shapes(path))
    try:
        return BaseModel(
            path=path,
            architecture=str((config.get("architectures") or ["unknown"])[0]),
            n_parameters=sum(map(math.prod, shapes.values())),
            hidden=int(config["hidden_size"]),
            intermediate=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            vocabulary=int(config["vocab_size"]),
            context=int(config["max_position_embeddings"]),
            # Not embeddings and output: what peft calls "all-linear".
            linear=tuple(
                (shape[1], shape[0]) for name, shape in shapes.items() if len(shape) == 2 and "layers." in name
            ),
        )
    except KeyError as exc:
        raise BenchmarkError(f"{path / CONFIG}: no {exc}: only decoder models for text can be trained") from exc


def fingerprint(path: Path) -> str:
    """sha256 over configuration, tokenizer and all weights: seconds per 1e9 parameters. Raises as `describe`."""
    _config(path)
    digest = hashlib.sha256()
    for name in (*_FINGERPRINTED, *(file.name for file in _weight_files(path))):
        file = path / name
        if file.exists():
            digest.update(f"{name} {file.stat().st_size}\n".encode())
            with file.open("rb") as content:
                while block := content.read(_BLOCK_BYTES):
                    digest.update(block)
    return digest.hexdigest()


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / CONFIG).read_bytes())
    except OSError as exc:
        hint = "download the model first, e.g. hf download NAME --local-dir DIR"
        raise BenchmarkError(f"{path}: no base model is there ({CONFIG}: {exc.strerror}): {hint}") from exc
    except ValueError as exc:
        raise BenchmarkError(f"{path / CONFIG}: no JSON: {exc}") from exc
    if not isinstance(config, dict):
        raise BenchmarkError(f"{path / CONFIG}: no JSON object")
    return config


def _weight_files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise BenchmarkError(f"{path}: no *.safetensors there: only models with weights in that format are read")
    return files


def _shapes(path: Path) -> Iterator[tuple[str, list[int]]]:
    for file in _weight_files(path):
        try:
            with file.open("rb") as content:
                (length,) = struct.unpack("<Q", content.read(8))
                if length > _LONGEST_HEADER_BYTES:
                    raise ValueError(f"its head would be {length} bytes long")
                head = json.loads(content.read(length))
            for name, tensor in head.items():
                if name != "__metadata__":
                    yield name, [int(n) for n in tensor["shape"]]
        except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as exc:
            raise BenchmarkError(f"{file}: no readable safetensors ({exc}): download it again") from exc
