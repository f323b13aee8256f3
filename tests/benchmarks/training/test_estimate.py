"""What is known of a base model without loading it, and what a training of it is estimated to need."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import base_model, estimate
from benchmarks.lab.training.recipe import Recipe

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
LAYER = {
    "self_attn.q_proj": (4096, 4096),
    "self_attn.k_proj": (1024, 4096),
    "self_attn.v_proj": (1024, 4096),
    "self_attn.o_proj": (4096, 4096),
    "mlp.gate_proj": (14336, 4096),
    "mlp.up_proj": (14336, 4096),
    "mlp.down_proj": (4096, 14336),
}


def headed(path: Path, config: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Path:
    """A model's configuration, and weight files that are all head: the tensors themselves are not there."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    head = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    content = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)
    return path


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (128256, 4096),
        "lm_head.weight": (128256, 4096),
        "model.norm.weight": (4096,),
    }
    for layer in range(32):
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in LAYER.items()}
        shapes |= {f"model.layers.{layer}.{name}.weight": (4096,) for name in ("input_layernorm", "post_norm")}
    return headed(tmp_path / "llama", LLAMA_8B, shapes)


def test_an_8b_model_is_known_by_its_heads(llama: Path) -> None:
    """Llama 3.1 8B has 8,030,261,248 parameters; rank 16 on all matrices of its layers adds 41,943,040."""
    found = base_model.describe(llama)
    assert found.n_parameters == 8_030_261_248
    assert estimate.estimate(found, Recipe(base_model="m", rank=16)).n_adapter_parameters == 41_943_040


def test_the_estimate_of_an_8b_model(llama: Path) -> None:
    """15.0 GiB of weights and 0.6 of adapters, whatever the batch; activations and logits grow with its tokens."""
    base = base_model.describe(llama)
    one = estimate.estimate(base, Recipe(base_model="m", batch_size=1, max_tokens=2048))
    two = estimate.estimate(base, Recipe(base_model="m", batch_size=2, max_tokens=2048))
    assert round(one.weights / estimate.GIB, 1) == 15.0
    assert round(one.adapters / estimate.GIB, 1) == 0.6
    assert (two.activations, two.logits) == (2 * one.activations, 2 * one.logits)
    assert one.logits == 2048 * 128256 * estimate.LOGIT_BYTES


def test_a_model_too_large_costs_one_line_with_the_estimate(llama: Path) -> None:
    """What it needs, what is there, what to do; nothing is loaded."""
    recipe = Recipe(base_model=str(llama), batch_size=512, max_tokens=65536, gradient_checkpointing=False)
    found = estimate.estimate(base_model.describe(llama), recipe)
    with pytest.raises(BenchmarkError) as raised:
        estimate.demand_room(found, recipe)
    line = str(raised.value)
    assert f"needs about {found.memory / estimate.GIB:.1f} GiB" in line
    assert "gradient_checkpointing = true" in line
    assert "\n" not in line


def test_the_fingerprint_is_of_what_a_model_is_made_of(llama: Path, tmp_path: Path) -> None:
    """A changed byte of weights or template changes it; a README does not, nor does the directory."""
    first = base_model.fingerprint(llama)
    (llama / "README.md").write_text("words")
    moved = llama.rename(tmp_path / "moved")
    assert base_model.fingerprint(moved) == first
    (moved / "chat_template.jinja").write_text("{{ messages }}")
    second = base_model.fingerprint(moved)
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"\0")
    assert len({first, second, base_model.fingerprint(moved)}) == 3


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no base model is there"),
        ({"config.json": b"{"}, "no JSON"),
        ({"config.json": b"[]"}, "no JSON object"),
        ({"config.json": b"{}"}, "only models with weights in that format"),
        ({"config.json": b"{}", "model.safetensors": b"\xff" * 8}, "no readable safetensors"),
        ({"config.json": b"{}", "model.safetensors": b"\2\0\0\0\0\0\0\0[]"}, "no readable safetensors"),
        ({"config.json": b"{}", "model.safetensors": b"\2\0\0\0\0\0\0\0{}"}, "only decoder models"),
    ],
)
def test_a_directory_that_is_no_model_is_named(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    """Whatever lies in it, one line says what is wrong."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BenchmarkError, match=message):
        base_model.describe(tmp_path)
