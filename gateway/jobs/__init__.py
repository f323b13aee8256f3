"""Work handed from process to process: one seam, an embedded queue on SQLite and procrastinate on PostgreSQL."""

from gateway.jobs.opening import open_queue
from gateway.jobs.protocol import Handler, JobQueue

__all__ = ["Handler", "JobQueue", "open_queue"]
