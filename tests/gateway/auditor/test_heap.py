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


def mapped():
    before = lib.mallinfo2().hblks
    lib.malloc(8 << 20)
    return lib.mallinfo2().hblks - before

lib.free(lib.malloc(8 << 20))  # by itself glibc takes blocks of this size from the heap from now on
untold = mapped()
heap.map_large_blocks()
print(untold, mapped())
heap.trim()
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is what is told")


@pytest.mark.parametrize(("environ", "mapped"), [({}, "0 1"), ({"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}, "0 0")])
def test_large_blocks_are_mapped_apart(environ: dict[str, str], mapped: str) -> None:
    """In a process of its own, once it is told to; an operator's own setting stays."""
    argv = [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, **environ})
    assert ended.stdout.strip() == mapped
