"""What a step costs this thread's processor, as far as a busy machine lets that be known."""

import gc
import time
from collections.abc import Callable

ROUNDS = 3
TIMES_AS_LONG = 8
"""Ratio of two lengths that are compared. Quadratic steps take 64 times as long over the longer one."""
MOST_TIMES = 24.0
"""A linear step takes 8 times as long; a busy machine, and caches that the longer one leaves, make more of it."""
TRIES = 3


def processor_seconds(action: Callable[[], object], *, rounds: int = ROUNDS) -> float:
    """The best of so many. Without garbage collection, which goes through whatever a test process holds besides."""
    seconds = []
    gc.disable()
    try:
        for _ in range(rounds):
            begun = time.thread_time()
            action()
            seconds.append(time.thread_time() - begun)
    finally:
        gc.enable()
    return min(seconds)


def grows_in_proportion(action: Callable[[str], object], unit: str, chars: int) -> bool:
    """Whether the action takes time in proportion to a text of repeated units, of `chars` and TIMES_AS_LONG as many."""
    short = unit * max(chars // len(unit), 1)
    long = short * TIMES_AS_LONG

    def ratio() -> float:
        return processor_seconds(lambda: action(long)) / max(processor_seconds(lambda: action(short)), 1e-4)

    return any(ratio() < MOST_TIMES for _ in range(TRIES))
