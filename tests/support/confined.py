"""Runs a program under what a systemd unit allows its service's memory and system calls, where no systemd runs.

    python -m tests.support.confined UNIT PROGRAM [ARGUMENT...]

systemd's tool expands the sets of system calls, libseccomp filters them: a forbidden call ends the process (SIGSYS).
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

KILL_PROCESS, ALLOW = 0x8000_0000, 0x7FFF_0000
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1


def allowed_calls(unit: str) -> set[str]:
    """Names of the system calls that the unit's SystemCallFilter lines leave, as systemd reads them one by one."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    sets: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif (word := line.strip()) and not word.startswith("#") and line.startswith(" "):
            members.append(word)

    def expanded(name: str) -> set[str]:
        return set().union(*map(expanded, sets[name])) if name.startswith("@") else {name}

    found = expanded("@default")
    for value in re.findall(r"^SystemCallFilter=(.+)$", unit, re.MULTILINE):
        calls = set().union(*map(expanded, value.removeprefix("~").split()))
        found = found - calls if value.startswith("~") else found | calls
    return found


def confine(unit: str) -> None:
    """Puts this process, and whatever it starts, under the unit's limits."""
    libc = ctypes.CDLL(None, use_errno=True)
    if re.search(r"^MemoryDenyWriteExecute=yes$", unit, re.MULTILINE):
        libc.prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)  # Linux 6.3; an older one goes without
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(KILL_PROCESS)))
    for name in allowed_calls(unit):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # of this architecture
            assert seccomp.seccomp_rule_add(rules, ctypes.c_uint32(ALLOW), number, 0) == 0, name
    assert seccomp.seccomp_load(rules) == 0


if __name__ == "__main__":
    confine(Path(sys.argv[1]).read_text())
    os.execv(sys.argv[2], sys.argv[2:])
