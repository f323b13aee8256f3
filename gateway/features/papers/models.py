"""Reads models.toml: the models of a paper's tables, where each is served, and what is known of it."""

import tomllib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError

MOST_PARAMETERS = 100_000.0
"""Billions; a larger number is a plain count."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry [[models]]."""

    name: str
    """Name in tables and folders."""
    base_url: str
    model: str | None = None
    """Name as the server knows it; unset: `name`."""
    api_key_env: str | None = None
    """Environment variable with the server's key."""
    provider: str = ""
    family: str | None = None
    parameters: float | None = None
    """Billions of parameters."""
    released: date | None = None
    quantisation_of: str | None = None
    """Name of the model of this file that it is a quantised copy of."""
    without_filters: str | None = None
    """Name of the entry of this file that is the same model, asked without the filters of a gateway."""

    @property
    def served(self) -> str:
        return self.model or self.name

    @property
    def is_copy(self) -> bool:
        """True if it is another model of this file, quantised or filtered: one draw less."""
        return self.quantisation_of is not None or self.without_filters is not None

    @property
    def folder(self) -> str:
        """Name of the folder of its runs."""
        return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in self.name).lstrip(".")


def read(path: Path) -> list[Model]:
    """Return the models in the file's order. Raises BenchmarkError, one line, for the first mistake in it."""
    try:
        content = tomllib.loads(read_utf8(path).decode())
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise BenchmarkError(f"{path}: no TOML: {exc}") from exc
    entries = content.pop("models", None)
    if content:
        raise BenchmarkError(f'{path}: unknown key "{next(iter(content))}": a model is a [[models]]')
    if not isinstance(entries, list) or not entries:
        raise BenchmarkError(f"{path}: no model: add a [[models]] with name and base_url")
    models = [_model(path, number, entry) for number, entry in enumerate(entries, 1)]
    names = {model.name for model in models}
    folders = Counter(model.folder.casefold() for model in models)
    for model in models:
        if folders[model.folder.casefold()] > 1:
            raise BenchmarkError(f'{path}: two models have runs in a folder "{model.folder}": use different names')
        for key in ("quantisation_of", "without_filters"):
            original = getattr(model, key)
            if original is not None and (original not in names or original == model.name):
                raise BenchmarkError(f'{path}: model "{model.name}": {key} "{original}" is no other model here')
    return models


def _model(path: Path, number: int, entry: Any) -> Model:
    name = entry.get("name") if isinstance(entry, dict) else None
    where = f"{path}: model {number}" + (f' "{name}"' if isinstance(name, str) else "")
    try:
        model = msgspec.convert(entry, Model)
        address = urlsplit(model.base_url)
    except (msgspec.ValidationError, ValueError) as exc:
        raise BenchmarkError(f"{where}: {exc}") from None
    if not model.folder:
        raise BenchmarkError(f"{where}: name must have a letter or digit")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise BenchmarkError(f'{where}: base_url "{model.base_url}" must be like http://127.0.0.1:8000')
    if model.parameters is not None and not 0 < model.parameters <= MOST_PARAMETERS:
        raise BenchmarkError(f"{where}: parameters {model.parameters:g} must be in billions, e.g. 8.0")
    return model
