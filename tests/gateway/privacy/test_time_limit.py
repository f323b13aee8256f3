"""A computation on text of strangers comes to an end."""

import re
import threading
import time

import pytest

from gateway.privacy.time_limit import TimeLimitError, processor_time_limit

CATASTROPHE = re.compile(r"(?:a|a)*b")


def test_a_regular_expression_is_interrupted() -> None:
    """A match that would take years ends soon after its time is up, in the middle of the engine's work."""
    started = time.process_time()
    with pytest.raises(TimeLimitError), processor_time_limit(0.1):
        CATASTROPHE.match("a" * 64)
    assert time.process_time() - started < 2.0


def test_the_limit_ends_with_its_block() -> None:
    """What comes after a block that ended in time may take as long as it likes."""
    with processor_time_limit(0.02):
        pass
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass


def test_only_the_processors_time_counts() -> None:
    """A process that has to wait for its turn is not slow."""
    with processor_time_limit(0.05):
        time.sleep(0.2)


def test_another_thread_is_left_alone() -> None:
    """Only the main thread can be interrupted; elsewhere the block runs to its end."""
    ended: list[bool] = []

    def compute() -> None:
        with processor_time_limit(0.01):
            until = time.thread_time() + 0.1
            while time.thread_time() < until:
                pass
        ended.append(True)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert ended == [True]
