"""Reads and writes the output of a training: checkpoints, each with a card that states how it was trained."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Message
from benchmarks.errors import BenchmarkError, writing
from benchmarks.lab.training import base_model
from benchmarks.lab.training.recipe import Recipe

CARD, WEIGHTS, TRAINING, LOSSES = "card.json", "adapter_model.safetensors", "training.json", "losses.jsonl"
CHECKPOINT, ADAPTER = "checkpoint-", "adapter"

T = TypeVar("T")


class Example(msgspec.Struct, frozen=True):
    """A training example: only the answer is learned; the prompt is what it is an answer to."""

    prompt: tuple[Message, ...]
    answer: str


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of training.json, by which a training is recognised. A resumed training has the same."""

    schema: int = 1
    kind: str
    """distilled-judge or regard-ft."""
    recipe: Recipe
    recipe_sha256: str
    data_sha256: str
    """sha256 of the examples trained on, in order."""
    n_examples: int
    n_too_long: int
    """Left out: longer than the recipe's max_tokens."""
    base_fingerprint: str
    """sha256 of the base model's files."""
    about: dict[str, Any]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """card.json of an adapter."""

    identity: Identity
    step: int
    steps: int
    loss: float | None
    """Loss of the last step logged."""
    adapter_sha256: str
    seconds: float
    """Seconds that this process has run, up to this step."""
    n_tokens: int
    """Trained on up to this step, prompts included."""
    peak_memory_bytes: int
    """Peak memory of the GPU; without a GPU, of the process with everything that it loaded."""
    device: str
    versions: dict[str, str]


def begin(out: Path, contents: Mapping[str, bytes], *, mode: int = 0o777, lacks: str = "") -> None:
    """Writes files into a new or empty directory. BenchmarkError: another one (it `lacks` something), unwritable."""
    with writing(out):
        out.mkdir(mode=mode, parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise BenchmarkError(f"{out}: the directory is not empty{lacks}: choose another --out")
        for name, content in contents.items():
            (out / name).write_bytes(content)


def recorded(path: Path) -> Identity | None:
    """The training begun in a directory; None without any. Raises BenchmarkError for an unreadable file."""
    return decoded(path / TRAINING, Identity, "train into another directory")


def decoded(path: Path, kind: type[T], remedy: str) -> T | None:
    """The struct in a file; None without the file. Raises BenchmarkError for an unreadable file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path}: cannot be read ({exc}): {remedy}") from exc


def demand_same(path: Path, before: Identity, now: Identity) -> None:
    """Raises BenchmarkError naming the first thing in which a training would differ from the training begun there."""
    recipe_before, recipe_now = msgspec.to_builtins(before.recipe), msgspec.to_builtins(now.recipe)
    pairs: list[tuple[str, Any, Any]] = [
        ("kind", before.kind, now.kind),
        *((name, recipe_before[name], recipe_now[name]) for name in recipe_now if name != "base_model"),
        ("the data (sha256)", before.data_sha256[:12], now.data_sha256[:12]),
        ("the base model (sha256)", before.base_fingerprint[:12], now.base_fingerprint[:12]),
    ]
    for name, old, new in pairs:
        if old != new:
            raise BenchmarkError(
                f"{path}: cannot resume: {name} was {old} and is now {new}: use the same, or train into another --out"
            )


def card(path: Path) -> Card:
    """The card of an adapter. Raises BenchmarkError where there is none, or it is another adapter's."""
    try:
        adapter_card = msgspec.json.decode((path / CARD).read_bytes(), type=Card)
        actual = sha256(path / WEIGHTS)
    except FileNotFoundError as exc:
        hint = f"{path / ADAPTER}" if (path / ADAPTER).exists() else "what a training wrote, e.g. OUT/adapter"
        raise BenchmarkError(
            f"{path}: no adapter with a card ({Path(exc.filename).name} is missing): name {hint}"
        ) from exc
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path / CARD}: cannot be read: {exc}") from exc
    if actual != adapter_card.adapter_sha256:
        raise BenchmarkError(f"{path}: {WEIGHTS} is not the one of its card: it was replaced, train again")
    return adapter_card


def demand_base(path: Path, adapter_card: Card, base: Path) -> None:
    """Raises BenchmarkError when an adapter was trained on another model than the model in `base`."""
    actual = base_model.fingerprint(base)
    if actual != adapter_card.identity.base_fingerprint:
        raise BenchmarkError(
            f"{path}: an adapter of another base model: trained on {adapter_card.identity.recipe.base_model} "
            f"({adapter_card.identity.base_fingerprint[:12]}), and {base} is {actual[:12]}: name that model"
        )


def checkpoints(path: Path) -> Iterator[tuple[int, Path]]:
    """Yield step and directory of every whole checkpoint, in order; a checkpoint cut off in writing is skipped."""
    steps = []
    for folder in path.glob(f"{CHECKPOINT}*"):
        step = folder.name.removeprefix(CHECKPOINT)
        if step.isascii() and step.isdigit() and (folder / CARD).exists():
            steps.append((int(step), folder))
    yield from sorted(steps)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path: Path, content: msgspec.Struct | Mapping[str, Any]) -> None:
    """All or nothing, as JSON. Raises BenchmarkError where it cannot be written."""
    part = path.with_name(path.name + ".part")
    with writing(path):
        part.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        part.replace(path)
