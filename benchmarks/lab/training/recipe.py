"""The settings of a LoRA training, and the configuration file that holds them."""

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auditors.text.nearest_word import nearest
from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError

Count = Annotated[int, Meta(ge=1)]
Precision = Literal["bfloat16", "float32"]
SECTION = "training"


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `[training]` of a recipe; what is left out has these values."""

    base_model: str = ""
    """Directory of the base model; relative to where the command runs."""
    rank: Count = 16
    alpha: Count = 32
    """Numerator of the factor alpha / rank by which the adapters' addition is multiplied."""
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 2e-4
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup_share: Annotated[float, Meta(ge=0, lt=1)] = 0.03
    """Share of the steps over which the learning rate rises."""
    epochs: Annotated[float, Meta(gt=0)] = 1.0
    """Times that each example is seen; no effect when `steps` is set."""
    steps: Count | None = None
    batch_size: Count = 8
    """Examples side by side on the device."""
    accumulation: Count = 1
    """Batches a step."""
    max_tokens: Count = 4096
    """Longest example, prompt and answer; longer ones are left out and counted, never cut."""
    checkpoint_every: Count = 50
    """Steps between two checkpoints."""
    precision: Precision = "bfloat16"
    """Precision of the base model's weights; the adapters are float32."""
    gradient_checkpointing: bool = True
    """Computes activations again instead of keeping them: a third more time, a tenth of their memory."""
    seed: int = 0

    @property
    def sha256(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


def read(path: Path | None, **overrides: Any) -> Recipe:
    """Return a file's recipe or the default, with overrides that are not None. BenchmarkError names key and value."""
    values = {} if path is None else _section(path)
    values |= {name: value for name, value in overrides.items() if value is not None}
    where = "recipe" if path is None else str(path)
    for name in values:
        if name not in Recipe.__struct_fields__:
            keys = Recipe.__struct_fields__
            raise BenchmarkError(f'{where}: [{SECTION}] has no key "{name}"{nearest(name, keys)}: {", ".join(keys)}')
    try:
        recipe = msgspec.convert(values, Recipe)
    except msgspec.ValidationError as exc:
        key = str(exc).partition("$.")[2].rstrip("`")
        value = f" ({values[key]!r})" if key in values else ""
        raise BenchmarkError(f"{where}: [{SECTION}] {key}{value}: {str(exc).partition(' - at')[0]}") from exc
    if not recipe.base_model:
        hint = 'name a directory, e.g. base_model = "models/llama-3.1-8b"'
        raise BenchmarkError(f"{where}: [{SECTION}] no base_model: {hint}")
    return recipe


def _section(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(read_utf8(path).decode())
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a recipe, e.g. deploy/regard-ft-8b.toml") from exc
    except tomllib.TOMLDecodeError as exc:
        raise BenchmarkError(f"{path}: no TOML: {exc}") from exc
    section = content.pop(SECTION, None)
    if not isinstance(section, dict) or content:
        other = f', not "{next(iter(content))}"' if content else ""
        raise BenchmarkError(f"{path}: a recipe has one section, [{SECTION}]{other}")
    return section
