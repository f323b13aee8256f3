"""The allocator does as it is told: large blocks are mapped apart, and free pages go back."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys
from gateway.auditor import process as heap

class Counts(ctypes.Structure):  # struct mallinfo2 of malloc.h
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

lib = ctypes.CDLL(None)
lib.mallinfo2.restype = Counts
lib.malloc.restype, lib.malloc.argtypes, lib.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
if sys.argv[1] == "told":
    heap.map_large_blocks()
before = lib.mallinfo2().hblks
lib.free(lib.malloc(8 << 20))  # by itself glibc takes blocks of this size from the heap from now on
lib.malloc(8 << 20)
print(lib.mallinfo2().hblks - before)
heap.trim()
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is what is told")


@pytest.mark.parametrize(
    ("told", "environ", "mapped"),
    [("told", {}, 1), ("not told", {}, 0), ("told", {"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}, 0)],
)
def test_large_blocks_are_mapped_apart(told: str, environ: dict[str, str], mapped: int) -> None:
    """In a process of its own; an operator's own setting stays."""
    argv = [sys.executable, "-c", SCRIPT, told]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, **environ})
    assert int(ended.stdout) == mapped
