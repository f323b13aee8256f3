"""Work handed from process to process: one seam, an embedded queue on SQLite and procrastinate on PostgreSQL."""

from gateway.jobs.protocol import LEASE_SECONDS, JobQueue
from gateway.store.database import Database

__all__ = ["JobQueue", "open_queue"]


def open_queue(database: Database, *, lease_seconds: float = LEASE_SECONDS) -> JobQueue:
    """The queue that fits the store; it connects on first use. Loads procrastinate only when that is PostgreSQL."""
    if database.dialect == "sqlite":
        from gateway.jobs.embedded import EmbeddedQueue

        return EmbeddedQueue(database, lease_seconds=lease_seconds)
    from gateway.jobs.postgres import PostgresQueue

    return PostgresQueue(database, lease_seconds=lease_seconds)
