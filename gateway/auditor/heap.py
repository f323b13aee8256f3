"""Settings of glibc's allocator that keep the auditor's memory bounded; another C library is left as it is.

An embedder takes and frees blocks of many megabytes in ever new sizes, between small ones that live long. By itself
glibc raises the size from which a block is mapped apart, up to 32 MB, to where the last large block was freed: large
blocks then come from the heap, and what lives between them keeps it from shrinking.
"""

import ctypes
import os

LARGE_BLOCK_BYTES = 1024 * 1024
"""Blocks from this size on are mapped apart, and given back to the kernel when freed."""

_M_MMAP_THRESHOLD = -3
"""In malloc.h."""


def map_large_blocks() -> None:
    """From now on. An operator's own MALLOC_MMAP_THRESHOLD_ stays."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        change(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def trim() -> None:
    """Gives whole free pages back to the kernel. Takes some tens of milliseconds, without the interpreter's lock."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
