"""The data sets of an export, column by column: types, units and meaning, from `columns.toml`."""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Literal

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column of a data set."""

    name: str
    kind: Literal["int64", "float64", "string", "time"]
    text: str
    unit: str | None = None


DATASETS: Mapping[str, Sequence[Column]] = msgspec.toml.decode(
    resources.files(__package__).joinpath("columns.toml").read_bytes(), type=dict[str, list[Column]]
)
