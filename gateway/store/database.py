"""An open store: connections to a database whose schema and key are those of this process."""

import contextlib
import logging
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreError
from gateway.privacy.texts import Texts
from gateway.store import schema, store_metadata
from gateway.store.connections import Connections

logger = logging.getLogger(__name__)

Connection = AsyncConnection
"""A transaction of the store, as `Database.begin` and `Database.read` give it."""

_OTHERS = 0o077


class Database(Connections):
    """An open store. Make one with `await Database.open(url)`; `async with` or `close` ends it."""

    def __init__(self, url: str, texts: Texts) -> None:
        super().__init__(url)
        self.texts = texts
        self.user_salt = b""

    @classmethod
    async def open(cls, url: str, *, migrate: bool = True, texts: Texts | None = None) -> "Database":
        """Connect (sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DB), and update the schema, or only check it.
        `texts`: how text is stored; None where none is. Raises StoreError: unreachable, read-only, another schema
        version or key.
        """
        if not migrate:
            _refuse_absent(url)
        database = cls(url, texts or Texts())
        if migrate:
            _warn_of_readers(url)
        try:
            await (schema.migrate(database) if migrate else schema.check(database))
            if texts is not None:
                await store_metadata.check_key(database, texts)
            database.user_salt = await store_metadata.user_salt(database)
        except BaseException:
            await database.close()
            raise
        return database


def _warn_of_readers(url: str) -> None:
    """Warn of readers of a file of an earlier version, or opened up on purpose; a new file is private."""
    path = url.removeprefix("sqlite:///")
    with contextlib.suppress(OSError):
        if path != url and Path(path).stat().st_mode & _OTHERS:
            logger.warning("store %s can be opened by other users of this machine: chmod 600 %s*", url, path)


def _refuse_absent(url: str) -> None:
    """SQLite makes an empty file of a name that is wrong."""
    path = url.removeprefix("sqlite:///")
    if path != url and path and not Path(path).is_file():
        raise StoreError(f"store {url}: no such file: name the gateway's file with --config, or start the gateway once")
