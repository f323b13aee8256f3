"""Records who looked at exchanges or deleted them, and which ones they asked for; never the text in them."""

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from gateway.privacy.texts import user_digest
from gateway.store.database import Database
from gateway.store.tables import access_log

Action = Literal["read", "delete"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One access. `at` is Unix time in seconds."""

    at: float
    who: str
    """Name of the key, or the user of the machine for the command line."""
    client: str | None
    """Network address."""
    action: Action
    filter: dict[str, Any]
    """The criteria that were asked for; a user is named by the store's digest of them."""
    n_exchanges: int


async def note(
    database: Database, *, who: str, client: str | None, action: Action, asked: Mapping[str, Any], n_exchanges: int
) -> Access:
    """Adds to the record. `asked` is what the filter was given; entries that are None are left out."""
    fields = {name: value for name, value in asked.items() if value is not None}
    if "user" in fields:
        fields["user"] = user_digest(str(fields["user"]), database.user_salt)
    entry = Access(at=time.time(), who=who[:100], client=client, action=action, filter=fields, n_exchanges=n_exchanges)
    row = msgspec.structs.asdict(entry) | {"filter": msgspec.json.encode(fields).decode().replace("\\u0000", "")}
    await database.change_rows(sa.insert(access_log).values(row))
    return entry


async def entries(database: Database, *, limit: int = 100) -> list[Access]:
    """The newest accesses, newest first."""
    columns = [column for column in access_log.c if column.name != "id"]
    query = sa.select(*columns).order_by(access_log.c.id.desc()).limit(limit)
    rows = [dict(row._mapping) for row in await database.fetch_rows(query)]
    return [Access(**entry | {"filter": msgspec.json.decode(entry["filter"])}) for entry in rows]
