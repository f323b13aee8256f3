"""Does the work of a writer's parent: binds its address, and says how it is run."""

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gateway.children.supervisor import Child
from gateway.errors import ConfigError
from gateway.sampling.writer.journal import SUFFIX, store_of

WRITER = "writer"
WRITER_SECTIONS = frozenset({"store", "telemetry", "sampling"})
"""Sections that the writer works by; when one changes, it is started again."""
GRACE_SECONDS = 10.0
"""Seconds for the batch that is being stored."""

_BACKLOG = 128
_LONGEST_PATH = 100
"""Linux takes 107 bytes, others 103."""
_PREFIX = "biasgate-writer-"
_OWNER = "owner"
"""A file that its gateway's parent keeps locked."""
_SHORT_DIRECTORY = "/tmp"  # noqa: S108 - a directory of our own is made in it


@contextlib.contextmanager
def address() -> Iterator[tuple[str, socket.socket]]:
    """Yield a path for workers, in a directory of this user only, and its socket, which outlives any writer: workers
    that connect between two wait. The directory goes in the end unless counts are left in it: then the next gateway of
    this store finds it (`abandoned`). Raises ConfigError when it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
            if len(os.fsencode(directory / "socket")) > _LONGEST_PATH:
                directory.rmdir()
                directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT_DIRECTORY))
            stack.callback(_remove, directory)
            stack.callback(os.close, _owned(directory))
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            path = str(directory / "socket")
            listener.bind(path)
            listener.listen(_BACKLOG)
        except OSError as exc:
            raise ConfigError(f"no Unix socket can be made in a temporary directory: {exc}: set TMPDIR") from exc
        yield path, listener


def abandoned(directory: Path, store: str) -> Iterator[Path]:
    """Directories of this user's other, dead gateways over a store (`store_of`); one without journals goes."""
    for folder in dict.fromkeys((directory.parent, Path(_SHORT_DIRECTORY))):
        for other in sorted(folder.glob(_PREFIX + "*")):
            with contextlib.suppress(OSError):  # others look as well
                if _is_private(other) and not _is_owned(other) and store_of(other) == store:
                    yield other
                    _remove(other)


def _owned(directory: Path) -> int:
    """A descriptor that holds the directory's lock as long as this process lives."""
    new = directory / "owner.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    new.rename(directory / _OWNER)  # under this name it is never without its lock
    return descriptor


def _is_owned(directory: Path) -> bool:
    """Return whether its gateway lives. Raises OSError for a directory that is still being made."""
    descriptor = os.open(directory / _OWNER, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_private(directory: Path) -> bool:
    status = directory.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove(directory: Path) -> None:
    if not any(directory.glob("*" + SUFFIX)):
        shutil.rmtree(directory, ignore_errors=True)


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
