"""Keeps what a run is made of out of the garbage collector's sight.

A full collection looks at every object there is and holds up every other thread meanwhile: 0.2 s with the items of BBQ,
several times while these are made and now and then as long as they live. Use from one thread, the event loop's.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = 1_000_000_000
"""Collections of the middle generation before a full one by itself."""

_making = 0
_kept = 0
_thresholds = gc.get_threshold()


@contextmanager
def no_full_collections() -> Iterator[None]:
    """While what lives long is made, in whichever thread: nearly nothing of it is garbage."""
    global _making, _thresholds
    if not _making:
        _thresholds = gc.get_threshold()
        gc.set_threshold(*_thresholds[:2], NEVER)
    _making += 1
    try:
        yield
    finally:
        _making -= 1
        if not _making:
            gc.set_threshold(*_thresholds)


@contextmanager
def set_aside() -> Iterator[None]:
    """What is there at the beginning of the block is not looked at until its end, or that of the last one like it."""
    global _kept
    gc.freeze()
    _kept += 1
    try:
        yield
    finally:
        _kept -= 1
        if not _kept:
            gc.unfreeze()
