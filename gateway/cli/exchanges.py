"""`biasgate exchanges`: deletes stored exchanges, and shows who has read or deleted any."""

import argparse
import asyncio
import getpass
import json
from pathlib import Path

import msgspec

from gateway.config.loading import load
from gateway.config.schema import Config
from gateway.errors import GatewayError

HELP = """\
Deletion takes the text and every word derived from it; estimates keep the numbers. Works while the gateway runs.

Example:
  biasgate exchanges delete --request-id 5f0c9c1a
  biasgate exchanges delete --user ann@example.org
  biasgate exchanges access --limit 20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="delete|access")
    delete = actions.add_parser(
        "delete",
        help="delete every exchange to which all that is given applies",
        epilog="Example: `biasgate exchanges delete --user ann@example.org`.",
    )
    delete.add_argument("--request-id", metavar="ID", help="its x-request-id")
    delete.add_argument("--user", help="who asked, as the client named them in the request")
    delete.add_argument("--tag", help="its x-biasgate-tag")
    access = actions.add_parser(
        "access",
        help="who read exchanges or deleted them, newest first, a JSON line each",
        epilog="Example: `biasgate exchanges access --limit 20`.",
    )
    access.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many (default 100)")
    for action in (delete, access):
        action.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")


def run(arguments: argparse.Namespace) -> int:
    config = load(arguments.config)
    if arguments.action == "access":
        return asyncio.run(_access(config, max(1, arguments.limit)))
    filters = {"request_id": arguments.request_id, "user": arguments.user, "tag": arguments.tag}
    if not any(filters.values()):
        raise GatewayError("exchanges delete: nothing says which: give --request-id, --user or --tag")
    return asyncio.run(_delete(config, filters))


async def _delete(config: Config, filters: dict[str, str | None]) -> int:
    from gateway.store import access, exchanges
    from gateway.store.database import Database

    async with await Database.open(config.store.url, migrate=False) as database:
        deleted = await exchanges.delete(database, **{name: value or None for name, value in filters.items()})
        who = f"user {getpass.getuser()}"
        await access.note(database, who=who, client=None, action="delete", asked=filters, n_exchanges=deleted.exchanges)
    n_kept = deleted.measurements_kept
    print(f"{deleted.exchanges} exchange{'' if deleted.exchanges == 1 else 's'} deleted")
    if n_kept:
        print(f"{n_kept} measurement{'' if n_kept == 1 else 's'} kept without link: estimates keep these numbers")
    return 0


async def _access(config: Config, limit: int) -> int:
    from gateway.store import access
    from gateway.store.database import Database

    async with await Database.open(config.store.url, migrate=False) as database:
        for entry in await access.entries(database, limit=limit):
            print(json.dumps(msgspec.to_builtins(entry)))
    return 0
