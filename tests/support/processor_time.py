"""What a step costs this thread's processor, as far as a busy machine lets that be known."""

import gc
import time
from collections.abc import Callable

ROUNDS = 3


def processor_seconds(action: Callable[[], object]) -> float:
    """The best of ROUNDS. Without garbage collection, which goes through whatever a test process holds besides."""
    seconds = []
    gc.disable()
    try:
        for _ in range(ROUNDS):
            begun = time.thread_time()
            action()
            seconds.append(time.thread_time() - begun)
    finally:
        gc.enable()
    return min(seconds)
