"""Rows of a data set as Parquet: typed columns with their units, a version in the file's metadata."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import IO, Any

from gateway.errors import ExportError
from gateway.features.export.address import VERSION
from gateway.features.export.columns import DATASETS, Column


class ParquetFile:
    """A file of one data set, a row group for each `add`."""

    def __init__(self, file: IO[bytes], dataset: str) -> None:
        """Raises ExportError where pyarrow is not installed."""
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ModuleNotFoundError as exc:
            raise ExportError('exporting needs fsspec and pyarrow: pip install "biasgate[export]"') from exc
        self._schema = _schema(pa, dataset)
        self._arrow = pa
        self._writer = pyarrow.parquet.ParquetWriter(file, self._schema, compression="zstd")

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Rows in the order of the columns; times are Unix seconds."""
        arrays = [
            self._arrow.array(_in_microseconds(values) if field.name.endswith("_at") else values, type=field.type)
            for field, values in zip(self._schema, zip(*rows, strict=True), strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Writes the end, without which it is no Parquet file; the file beneath stays open."""
        self._writer.close()


def _schema(arrow: Any, dataset: str) -> Any:
    metadata = {"biasgate.dataset": dataset, "biasgate.layout": str(VERSION), "biasgate.version": version("biasgate")}
    return arrow.schema([_field(arrow, column) for column in DATASETS[dataset]], metadata=metadata)


def _field(arrow: Any, column: Column) -> Any:
    kinds = {"int64": arrow.int64(), "float64": arrow.float64(), "string": arrow.string()}
    kind = arrow.timestamp("us", tz="UTC") if column.kind == "time" else kinds[column.kind]
    unit = {} if column.unit is None else {"unit": column.unit}
    return arrow.field(column.name, kind, metadata={"description": column.text, **unit})


def _in_microseconds(seconds: Sequence[float | None]) -> list[int | None]:
    return [None if one is None else round(one * 1e6) for one in seconds]
