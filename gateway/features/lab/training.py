"""Parts that commands which train an adapter share: arguments, the estimate, the vLLM command that serves it."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact, base_model, estimate, lora, recipe
from benchmarks.lab.training.recipe import Recipe

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM's --max-lora-rank takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="TOML with a section [training] (docs/judges.md#distil-a-small-judge)",
    )
    parser.add_argument("--base-model", metavar="DIR", help="in place of the recipe's: directory of the base model")
    parser.add_argument("--steps", type=int, metavar="N", help="in place of the recipe's epochs")
    parser.add_argument("--seed", type=int, metavar="N", help="in place of the recipe's")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="checkpoints and the adapter go there")
    parser.add_argument("--dry-run", action="store_true", help="print estimates of memory and time; train nothing")


def given_recipe(arguments: argparse.Namespace) -> Recipe:
    """Raises BenchmarkError for a recipe that cannot be."""
    overrides = {name: getattr(arguments, name) for name in ("base_model", "steps", "seed")}
    return recipe.read(arguments.recipe, **overrides)


def show_estimate(lora_recipe: Recipe, n_examples: int) -> None:
    """Memory and time; of a model of which the heads of the weight files are there."""
    base = base_model.describe(Path(lora_recipe.base_model))
    needs = estimate.estimate(base, lora_recipe)
    steps = lora.n_steps(lora_recipe, n_examples)
    n_tokens = steps * lora_recipe.batch_size * lora_recipe.accumulation * lora_recipe.max_tokens
    gib = estimate.GIB
    print(f"{lora_recipe.base_model}: {base.architecture}, {base.n_parameters / 1e9:.3g} billion parameters")
    print(f"adapters of rank {lora_recipe.rank}: {needs.n_adapter_parameters / 1e6:.3g} million parameters")
    print(
        f"memory, estimated: {needs.memory / gib:.1f} GiB (weights {needs.weights / gib:.1f}, adapters "
        f"{needs.adapters / gib:.1f}, activations {needs.activations / gib:.1f}, logits {needs.logits / gib:.1f}, "
        f"torch {estimate.RUNTIME_BYTES / gib:.1f})"
    )
    print(
        f"{steps} steps of {lora_recipe.batch_size * lora_recipe.accumulation} examples of up to "
        f"{lora_recipe.max_tokens} tokens"
    )
    times = [
        f"{needs.seconds(n_tokens, flops) / 60:.0f} min on one {name}" for name, flops in estimate.PEAK_FLOPS.items()
    ]
    print(f"time at most, estimated: {', '.join(times)} (at {100 * estimate.UTILISATION:.0f} % of its peak)")


def show_trained(adapter: Path) -> None:
    """Print where the adapter is, and what its training took."""
    card = artefact.card(adapter)
    print(
        f"{adapter}: step {card.step} of {card.steps}, loss {card.loss:.4f}" if card.loss is not None else f"{adapter}"
    )
    print(
        f"{card.identity.n_examples} examples, {card.n_tokens} tokens in {card.seconds:.0f} s on {card.device}, "
        f"at most {card.peak_memory_bytes / estimate.GIB:.2f} GiB"
    )
    if card.identity.n_too_long:
        print(f"{card.identity.n_too_long} examples left out: longer than {card.identity.recipe.max_tokens} tokens")


def say(line: str) -> None:
    """Print a line about the training to the error stream, at once."""
    print(line, file=sys.stderr, flush=True)


def vllm_command(adapters: Mapping[str, Path], base: Path | None, port: int) -> str:
    """Return the command for a base model with adapters. Raises BenchmarkError for another base model or no adapter."""
    cards = {name: artefact.card(path) for name, path in adapters.items()}
    first = next(iter(cards.values())).identity
    directory = base or Path(first.recipe.base_model)
    for name, path in adapters.items():
        if cards[name].identity.base_fingerprint != first.base_fingerprint:
            raise BenchmarkError(f"{path}: an adapter of another base model than {next(iter(adapters.values()))}")
    artefact.demand_base(next(iter(adapters.values())), next(iter(cards.values())), directory)
    rank = max(card.identity.recipe.rank for card in cards.values())
    words = ["vllm", "serve", str(directory), "--port", str(port), "--enable-lora"]
    words += ["--max-lora-rank", str(next(vllm_rank for vllm_rank in (*VLLM_RANKS, rank) if vllm_rank >= rank))]
    words += ["--max-loras", str(min(len(adapters), 8))]
    words += ["--lora-modules", *(f"{name}={path.resolve()}" for name, path in adapters.items())]
    return shlex.join(words)
