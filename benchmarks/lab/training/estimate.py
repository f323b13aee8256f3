"""Estimates the memory and time of a LoRA training from sizes, before a weight is loaded.
Memory: frozen weights, adapters with gradients and Adam's two moments (16 bytes a parameter, all float32), activations,
and logits of a batch. Activations: 16 hidden vectors a token and 4 of the feed-forward part for each layer (one layer,
and the borders of all, with gradient checkpointing), attention without its matrix of scores. Time: 4 floating-point
operations a parameter and token (forward 2, backward through frozen weights 2), 6 with gradient checkpointing, at the
share UTILISATION of the device's rate.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training.base_model import BaseModel
from benchmarks.lab.training.recipe import Recipe

GIB = 1 << 30
MEMINFO = Path("/proc/meminfo")
BYTES = {"bfloat16": 2, "float32": 4}
ADAPTER_BYTES = 16
HIDDEN_VECTORS, FEED_FORWARD_VECTORS = 16, 4
LOGIT_BYTES = 12
"""Bytes for a token and an entry of the vocabulary: logits, their float32 copy, their gradient."""
RUNTIME_BYTES = int(1.5 * GIB)
"""Bytes of torch itself: kernels, workspaces, fragmentation."""
UTILISATION = 0.35
"""Share of its peak that a training reaches; 0.3 to 0.5 are usual."""
PEAK_FLOPS = {"H100": 989e12, "A100": 312e12}
"""Dense bfloat16, from the makers' data sheets."""


class Estimate(NamedTuple):
    """Bytes and operations of a training."""

    weights: int
    adapters: int
    activations: int
    logits: int
    n_adapter_parameters: int
    operations_a_token: float

    @property
    def memory(self) -> int:
        return self.weights + self.adapters + self.activations + self.logits + RUNTIME_BYTES

    def seconds(self, n_tokens: int, flops: float) -> float:
        """Return the seconds that so many tokens take on a device with that peak."""
        return n_tokens * self.operations_a_token / (flops * UTILISATION)


def estimate(base: BaseModel, recipe: Recipe, longest: int | None = None) -> Estimate:
    """`longest`: tokens of the longest example; None: as long as the recipe allows."""
    tokens = recipe.batch_size * min(longest or recipe.max_tokens, recipe.max_tokens)
    size = BYTES[recipe.precision]
    n_adapter = sum(recipe.rank * (inputs + outputs) for inputs, outputs in base.linear)
    inside = tokens * (HIDDEN_VECTORS * base.hidden + FEED_FORWARD_VECTORS * base.intermediate) * size
    border = tokens * base.hidden * size
    activations = inside + base.layers * border if recipe.gradient_checkpointing else base.layers * inside
    return Estimate(
        weights=base.n_parameters * size,
        adapters=n_adapter * ADAPTER_BYTES,
        activations=activations,
        logits=tokens * base.vocabulary * LOGIT_BYTES,
        n_adapter_parameters=n_adapter,
        operations_a_token=(6.0 if recipe.gradient_checkpointing else 4.0) * base.n_parameters,
    )


def demand_room(needed: Estimate, recipe: Recipe) -> None:
    """Raises BenchmarkError, one line with the estimate, where the device has not the memory for it."""
    device, room = _room()
    if needed.memory <= room:
        return
    smaller = "a smaller batch_size with more accumulation, a smaller max_tokens"
    if not recipe.gradient_checkpointing:
        smaller = f"gradient_checkpointing = true, {smaller}"
    raise BenchmarkError(
        f"{recipe.base_model}: training needs about {needed.memory / GIB:.1f} GiB "
        f"(weights {needed.weights / GIB:.1f}, adapters {needed.adapters / GIB:.1f}, "
        f"activations, logits {(needed.activations + needed.logits) / GIB:.1f}); {device} has {room / GIB:.1f} GiB: "
        f"use a larger GPU, a smaller model, or {smaller}"
    )


def _room() -> tuple[str, int]:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(), int(torch.cuda.get_device_properties(0).total_memory)
    return "this machine (no GPU)", _available(MEMINFO)


def _available(meminfo: Path) -> int:
    """Bytes of memory that programs can have, what caches files among them; what is unused where nothing tells that."""
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        match = None
    return int(match[1]) * 1024 if match else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
