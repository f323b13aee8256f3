"""Whoever yields the processor in a busy loop sleeps for a moment instead.

vLLM's CPU build runs its model in a worker, and its engine spins on `os.sched_yield` until the worker has done a step.
Meanwhile it hardly gives up the interpreter lock, on which the thread waits that takes new requests, and it takes a
whole core. Python reads this file at start, in every process of a vLLM whose PYTHONPATH begins with this folder.
"""

import os
import time

PAUSE_SECONDS = 2e-4


def _rest() -> None:
    time.sleep(PAUSE_SECONDS)


os.sched_yield = _rest
