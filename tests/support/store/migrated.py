"""Makes migrated SQLite stores for tests: a copy of a migrated file costs a tenth of a migration."""

import asyncio
import functools
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway.store.database import Database


def write_migrated(path: Path) -> None:
    """Write an SQLite store without rows, where there is none."""
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(_read_migrated())


@functools.cache
def _read_migrated() -> bytes:
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as thread:
        path = Path(directory) / "store.db"
        thread.submit(asyncio.run, _migrate(path)).result()  # a thread, as tests call it within their event loop
        return path.read_bytes()


async def _migrate(path: Path) -> None:
    await (await Database.open(f"sqlite:///{path}")).close()
