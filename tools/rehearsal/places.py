"""Where the parts of a rehearsal run: network namespaces joined by a bridge, or ports of this machine's loopback."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

import msgspec

NETWORK = f"10.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"
"""Of this run alone: another may be under way."""


class Place(msgspec.Struct, frozen=True):
    """A machine of its own, as far as TCP can tell; or this one."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    """Words before a command that is to run there."""
    link: str | None = None
    """Our end of its cable; None on this machine."""

    def cut(self) -> None:
        """Pulls the cable: what is sent to and from it is lost, and connections stay open on both sides."""
        _ip("link", "set", self._cable, "down")

    def join(self) -> None:
        """Puts it back."""
        _ip("link", "set", self._cable, "up")

    @property
    def _cable(self) -> str:
        if self.link is None:
            raise RuntimeError("this machine's loopback has no cable to pull")
        return self.link


@contextlib.contextmanager
def namespaces(names: Sequence[str]) -> Iterator[dict[str, Place]]:
    """A namespace for each name, on one bridge with this machine. Raises OSError where that is not allowed."""
    run = f"bg{os.getpid() % 100000}"
    bridge = f"{run}b"
    made: list[tuple[str, ...]] = []
    try:
        _ip("link", "add", bridge, "type", "bridge")
        made.append(("link", "del", bridge))
        _ip("addr", "add", f"{NETWORK}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        found = {}
        for number, name in enumerate(names, start=2):
            space, ours, address = f"{run}-{name}", f"{run}v{number}", f"{NETWORK}.{number}"
            _ip("netns", "add", space)
            made.append(("netns", "del", space))
            _ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", space)
            made.append(("link", "del", ours))  # the namespace itself lives as long as anything in it
            _ip("link", "set", ours, "master", bridge)
            _ip("link", "set", ours, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            found[name] = Place(address, ("ip", "netns", "exec", space), ours)
        yield found
    finally:
        for words in reversed(made):
            with contextlib.suppress(OSError):
                _ip(*words)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
