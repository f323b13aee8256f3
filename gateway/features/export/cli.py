"""`biasgate export`: brings measurements and runs of a store to an address as Parquet files, as far as they are new."""

import argparse
import asyncio
import uuid
from pathlib import Path

from gateway.config.loading import load
from gateway.errors import ConfigError
from gateway.features.export.config import EXPORT

HELP = """\
What is there already is left alone: run it again after whatever stopped it. With [export] url the auditor does the same
by itself. Needs the extra "export", and for s3:// and the like the package that fsspec names (docs/operations.md).

Example:
  biasgate export --to /srv/biasgate-export
  biasgate export --to s3://bucket/biasgate --config biasgate.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="ADDRESS", help="a directory, or an address of fsspec (default: export.url)")
    parser.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")


def run(arguments: argparse.Namespace) -> int:
    config = load(arguments.config)
    url = arguments.to or EXPORT.of(config).url
    if not url:
        raise ConfigError("there is nowhere to export to: give --to ADDRESS, or set export.url")
    print(asyncio.run(_export(config.store.url, url)))
    return 0


async def _export(store_url: str, url: str) -> str:
    from auditors.addresses import mask_url
    from gateway.features.export.address import require_installed
    from gateway.features.export.passes import export_new_rows
    from gateway.store.database import Database

    require_installed(url)
    database = await Database.open(store_url, migrate=False)
    try:
        brought = await export_new_rows(database, url, uuid.uuid4().hex)
    finally:
        await database.close()
    rows = ", ".join(f"{n:,} {name}" for name, n in brought.rows.items() if n) or "nothing new"
    return f"{rows} in {brought.files} files at {mask_url(url)}"
