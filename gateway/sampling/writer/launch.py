"""What the parent of a writer does: binds its address, and says how it is run."""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gateway.errors import ConfigError
from gateway.processes.supervisor import Child

WRITER = "writer"
WRITER_SECTIONS = frozenset({"store", "telemetry", "sampling"})
"""Sections that the writer works by; when one changes, it is started again."""
GRACE_SECONDS = 10.0
"""For the batch that is being stored."""

_BACKLOG = 128
_LONGEST_PATH = 100
"""Linux takes 107 bytes, others 103."""
_SHORT_DIRECTORY = "/tmp"  # noqa: S108 - a directory of our own is made in it


@contextlib.contextmanager
def address() -> Iterator[tuple[str, socket.socket]]:
    """A path that workers connect to, in a directory that only this user may enter, and the socket behind it.

    The socket outlives any writer, so a worker that connects between two of them waits for the next.
    Raises: ConfigError when it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="biasgate-writer-"))
            if len(os.fsencode(directory)) + len("/socket") > _LONGEST_PATH:
                directory = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="biasgate-writer-", dir=_SHORT_DIRECTORY)
                )
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            path = str(Path(directory, "socket"))
            listener.bind(path)
            listener.listen(_BACKLOG)
        except OSError as exc:
            raise ConfigError(f"no Unix socket can be made in a temporary directory: {exc}: set TMPDIR") from exc
        yield path, listener


def child(listener: socket.socket, *, stage: int, environ: Callable[[], Mapping[str, str]]) -> Child:
    """The writer on this socket, for a Supervisor. It has to stop in a later stage than the workers."""
    return Child(
        name=WRITER,
        command=[sys.executable, "-m", "gateway", "gateway", "--writer-fd", str(listener.fileno())],
        stage=stage,
        grace_seconds=GRACE_SECONDS,
        pass_fds=(listener.fileno(),),
        environ=environ,
    )
