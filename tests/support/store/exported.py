"""Measurements in a store, made in bulk, and what pyarrow reads of an export."""

import random
from collections.abc import Sequence
from typing import Any

from fsspec.core import url_to_fs

from gateway.store.connections import Connections, insert_rows
from gateway.store.tables import measurements

NOON = 1_764_072_000.0
"""2025-11-25 12:00 UTC."""
DAY = 86400.0


async def add(database: Connections, n: int, *, days: int = 1, seed: int = 0, **given: Any) -> None:
    """Measurements without exchanges, one in ten without a value, recorded within so many days from `NOON` on."""
    draw = random.Random(seed)
    rows = [
        {
            "exchange_id": None,
            "auditor": "judge",
            "auditor_version": "1",
            "metric": "favoritism",
            "axis": "gender",
            "group_name": draw.choice(["women", "men"]),
            "reference_name": None,
            "model": "m",
            "value": None if number % 10 == 9 else draw.uniform(-1, 2),
            "status": "refusal" if number % 10 == 9 else "ok",
            "reason": None,
            "judge": '{"model":"j","prompt_sha256":"ab"}' if number % 2 else None,
            "detail": "{}",
            "inclusion_probability": 0.05,
            "rate_factor": 1.0,
            "weight": 1.0,
            "created_at": NOON + DAY * days * number / n,
            "stream": None,
            **given,
        }
        for number in range(n)
    ]
    async with database.begin() as connection:
        await insert_rows(connection, measurements, rows)


def read(url: str, dataset: str) -> list[dict[str, Any]]:
    """All rows at an address with their partition, by their first column, as another program reads them."""
    import pyarrow.dataset  # takes a second, which each process that collects tests would pay

    files, root = url_to_fs(url)
    found = pyarrow.dataset.dataset(f"{root}/{dataset}", filesystem=files, format="parquet", partitioning="hive")
    rows: list[dict[str, Any]] = found.to_table().to_pylist()
    return sorted(rows, key=lambda row: str(next(iter(row.values()))).zfill(20))


def names(url: str) -> Sequence[str]:
    """Of all files there."""
    files, root = url_to_fs(url)
    return sorted(str(name).removeprefix(str(root)).lstrip("/") for name in files.find(root))
