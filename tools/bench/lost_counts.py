"""How much of the ledger kill -9 of a worker takes along, ten times under load: `python -m tools.bench.lost_counts`.

Beside it what keeping count costs: a journal entry, a sampling decision, and what a worker leaves for the others.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.config.schema import SamplingConfig
from gateway.proxy.headers import RequestHead
from gateway.proxy.types import SamplingRequest
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.journal import Journal, Leftover
from gateway.store.database import Database
from gateway.worker_files import RecordFile
from tests.support.integration.killed_worker import kill_under_load

KILLS = 10


def cpu_seconds_each(action: Callable[[], object], count: int = 20_000) -> float:
    """Processor time of one call: the least of nine rounds."""
    rounds = []
    for _ in range(9):
        began = time.process_time()
        for _ in range(count):
            action()
        rounds.append((time.process_time() - began) / count)
    return min(rounds)


def costs() -> None:
    """Of what happens for every request, and for every batch."""
    drawn = RequestHead([(b"host", b"g"), (b"content-length", b"2")])
    chosen = RequestHead([(b"host", b"g"), (b"content-length", b"2"), (b"x-request-id", b"my-own-id")])
    for name, head in (("no x-request-id", drawn), ("one of the client's", chosen)):
        print(f"  ids of a repeated head, {name}: {cpu_seconds_each(partial(head.renew, 2)) * 1e6:.2f} us")
    for share in (1.0, 0.5):
        for rate in (0.05, 1.0):
            config = SamplingConfig(rate=rate, max_share_per_key=share)
            tap = SamplingTap(config, b"0123456789abcdef", Database.__new__(Database), None)  # type: ignore[arg-type]  # decides only: no sink, no store

            def decide(tap: SamplingTap = tap) -> None:
                chosen.renew(2)
                request = SamplingRequest(chosen.exchange_id, eligible=True, body=b"{}", may_opt=True, key_name="k")
                tap.decide(request)

            print(f"  a decision at rate {rate}, largest share {share}: {cpu_seconds_each(decide) * 1e6:.2f} us")
    with tempfile.TemporaryDirectory() as directory:
        journal, numbers = Journal(Path(directory), "s"), iter(range(10**9))
        entry = cpu_seconds_each(
            lambda: journal.write(Leftover("s", next(numbers), [("other", "failed", 9)], [("other", "sampled_out", 9)]))
        )
        count = cpu_seconds_each(lambda: journal.count(("other", "sampled_out")))
        journal.close(is_settled=True)
        leave_values(Path(directory))
    print(f"  a journal entry, two for each batch: {entry * 1e6:.1f} us; a count in it: {count * 1e6:.2f} us")


def leave_values(directory: Path) -> None:
    """Prints how long it takes to leave 1 kB for the other workers, in place and by renaming a file, in turns."""
    value, path = bytes(1024), directory / "renamed"
    in_place = RecordFile.create(directory / "in place", value)

    def rename() -> None:
        new = path.with_suffix(".partial")
        new.write_bytes(value)
        new.replace(path)

    seconds: dict[str, list[float]] = {"in place": [], "by renaming": []}
    for _ in range(2000):
        for name, action in (("in place", partial(in_place.write, value)), ("by renaming", rename)):
            began = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - began)
    in_place.close()
    for name, each in seconds.items():
        median, p99 = (sorted(each)[int(len(each) * share)] * 1e3 for share in (0.5, 0.99))
        print(f"  1 kB left for other workers {name}, on {directory}: median {median:.2f} ms, p99 {p99:.2f} ms")


async def kills(count: int) -> bool:
    """Whether no kill took more than a quarter of a second along."""
    worst_seconds, worst_requests = 0.0, 0
    for number in range(count):
        is_locked = number % 2 == 0
        with tempfile.TemporaryDirectory() as directory:
            one = await kill_under_load(
                Path(directory), workers=2, sampling_rate=0.1, is_store_locked=is_locked, seconds=3.0, connections=16
            )
        worst_seconds, worst_requests = max(worst_seconds, one.lost_seconds), max(worst_requests, one.lost_requests)
        print(
            f"  kill {number + 1}, store {'locked' if is_locked else 'free'}: {one.answered} answered, "
            f"{one.answered_by_victim} by the victim, {one.in_ledger} in the ledger; "
            f"lost {one.lost_requests} answers of the last {one.lost_seconds * 1000:.0f} ms; {one.broken} on their way"
        )
    print(f"  worst: {worst_requests} answers, {worst_seconds * 1000:.0f} ms")
    return worst_seconds <= 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    arguments = parser.parse_args()
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    print("processor time")
    costs()
    print(f"kill -9 of one of two workers, 16 connections in a closed loop, {arguments.kills} times")
    return 0 if asyncio.run(kills(arguments.kills)) else 1


if __name__ == "__main__":
    sys.exit(main())
