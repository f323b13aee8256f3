"""The pipe to a child's standard input: configurations as lines of JSON, and closed however the parent dies."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import msgspec

from gateway.config.schema import Config
from gateway.config.sections import config_type

_READ_BYTES = 65536


def line_of(config: Config) -> bytes:
    """The configuration as the parent writes it. It names secrets and holds none, but for a password in store.url."""
    return msgspec.json.encode(config) + b"\n"


def end_with_parent(descriptor: int = 0) -> None:
    """End this process when its standard input closes, as its parent is gone; no event loop, nothing else read."""

    def wait() -> None:
        while os.read(descriptor, _READ_BYTES):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent_pipe", daemon=True).start()


class ParentPipe:
    """The child's end of the pipe."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._unread = b""

    def first_config(self) -> Config | None:
        """Waits for the first line; None when the parent died before it was written."""
        while b"\n" not in self._unread:
            data = os.read(self._descriptor, _READ_BYTES)
            if not data:
                return None
            self._unread += data
        return self._next_config()

    def watch(self, on_config: Callable[[Config], None], on_parents_death: Callable[[], None]) -> None:
        """Calls back for every further configuration, and once when the pipe closes. Needs a running loop."""
        loop = asyncio.get_running_loop()
        descriptor = os.dup(self._descriptor)

        def readable() -> None:
            data = os.read(descriptor, _READ_BYTES)
            self._unread += data
            while (config := self._next_config()) is not None:
                on_config(config)
            if not data:
                loop.remove_reader(descriptor)
                os.close(descriptor)
                on_parents_death()

        loop.add_reader(descriptor, readable)

    def _next_config(self) -> Config | None:
        line, newline, rest = self._unread.partition(b"\n")
        if not newline:
            return None
        self._unread = rest
        return msgspec.json.decode(line, type=config_type())
