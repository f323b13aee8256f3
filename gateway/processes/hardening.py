"""Hardens every biasgate process at its start: its files are its user's alone, and its memory is never dumped."""

import contextlib
import os
import resource
from pathlib import Path

_PRIVATE = 0o077
_CORE_FILTER = Path("/proc/self/coredump_filter")


def harden() -> None:
    """Files 0600 and directories 0700, whatever the umask was; no core dump, of this process or any that it starts.

    A limit of zero does not hold a kernel that pipes dumps into a program. There the filter leaves all memory out of
    what is piped; unlike PR_SET_DUMPABLE it outlives exec and hides nothing from the user's own tools.
    """
    os.umask(_PRIVATE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # no Linux, or a read-only /proc
        _CORE_FILTER.write_text("0")
