"""`biasgate store migrate`: brings a store to the schema of this version, before anything is started on it."""

import argparse
import asyncio
from pathlib import Path

from gateway.config.loading import load

HELP = "Example: `biasgate store migrate --config biasgate.toml`."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="migrate")
    migrate = actions.add_parser(
        "migrate",
        help="upgrade the store's schema to this version's",
        description="Every start does the same. On its own it is a step of an upgrade: see docs/operations.md.",
        epilog=HELP,
    )
    migrate.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")


def run(arguments: argparse.Namespace) -> int:
    print(asyncio.run(_migrate(arguments.config)))
    return 0


async def _migrate(path: Path | None) -> str:
    from gateway.jobs import open_queue
    from gateway.store.database import Database
    from gateway.store.schema import VERSION

    async with await Database.open(load(path).store.url, migrate=True) as database:
        queue = open_queue(database)
        await queue.pending("")  # its first use makes the tables of its own
        await queue.close()
        return f"{database.masked_url} has schema {VERSION}"
