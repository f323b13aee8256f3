"""What a training leaves, without one: cards of checkpoints whose weights are a few bytes."""

from pathlib import Path

from benchmarks.lab.training import artefact
from benchmarks.lab.training.artefact import Card, Identity
from benchmarks.lab.training.recipe import Recipe


def written(
    out: Path, *steps: int, kind: str = "regard-ft", base: str = "models/tiny", fingerprint: str = "b" * 64
) -> Path:
    """A directory with a checkpoint of each step."""
    recipe = Recipe(base_model=base)
    identity = Identity(
        kind=kind,
        recipe=recipe,
        recipe_sha256=recipe.sha256,
        data_sha256="d" * 64,
        n_examples=2000,
        n_too_long=0,
        base_fingerprint=fingerprint,
        about={},
    )
    for step in steps:
        path = out / f"{artefact.CHECKPOINT}{step}"
        path.mkdir(parents=True)
        (path / artefact.WEIGHTS).write_bytes(f"weights of {out} at {step}".encode())
        card = Card(
            identity=identity, step=step, steps=max(steps), loss=1.0,
            adapter_sha256=artefact.sha256(path / artefact.WEIGHTS), seconds=1.0, n_tokens=1, peak_memory_bytes=1,
            device="cpu", versions={},
        )  # fmt: skip
        artefact.write(path / artefact.CARD, card)
    return out
