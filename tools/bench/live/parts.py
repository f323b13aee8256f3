"""Where the time to the first text goes, from the spans that vLLM itself exports for each request (`--trace`)."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tests.support.integration.collector import Collector, ReceivedSpan, collecting

QUEUE = "gen_ai.latency.time_in_queue"
PREFILL = "gen_ai.latency.time_in_model_prefill"
FIRST_TOKEN = "gen_ai.latency.time_to_first_token"
SLOWEST = 0.05
"""Share of the requests that counts as the slowest."""
STARTS_WITHIN_SECONDS = 10.0


class Parts(msgspec.Struct, frozen=True):
    """One request's time to its first text, in seconds; the parts add up to the whole."""

    before: float
    """From due until vLLM's front end has read it: client, gateway, HTTP, chat template."""
    handover: float
    """In vLLM, neither queued nor computed: front end to engine process, and the first token back."""
    queue: float
    """In the engine's queue."""
    prefill: float
    """From scheduled to the first token, other requests' share of those steps included."""
    after: float
    """From vLLM's front end to the client."""

    @property
    def whole(self) -> float:
        return self.before + self.handover + self.queue + self.prefill + self.after


def parts(span: ReceivedSpan, due: float, first: float) -> Parts:
    """Of one request.

    Args:
        span: vLLM's.
        due: when the client was to send it, in seconds since 1970.
        first: seconds from due to the first text.
    """
    before = span.start / 1e9 - due
    inside, queue, prefill = (span.attributes[name] for name in (FIRST_TOKEN, QUEUE, PREFILL))
    return Parts(before, inside - queue - prefill, queue, prefill, first - before - inside)


def by_trace(spans: Sequence[ReceivedSpan]) -> dict[str, ReceivedSpan]:
    """The spans of requests, by trace."""
    return {span.trace_id: span for span in spans if QUEUE in span.attributes}


def table(of_arm: Mapping[str, Sequence[Parts]]) -> list[str]:
    """Markdown: mean milliseconds of each part, of all requests and of the slowest to their first text."""
    names = Parts.__struct_fields__
    lines = [f"| first text, mean ms | requests | whole | {' | '.join(names)} |", "|---|---|---|" + "---|" * len(names)]
    for arm, found in of_arm.items():
        ordered = sorted(found, key=lambda one: one.whole)
        slowest = ordered[-max(1, round(SLOWEST * len(ordered))) :] if ordered else []
        for what, some in (("all", ordered), (f"slowest {SLOWEST:.0%}", slowest)):
            if some:
                means = [1e3 * float(np.mean([getattr(one, name) for one in some])) for name in ("whole", *names)]
                lines.append(f"| {arm}, {what} | {len(some)} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    return lines


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    """One that runs in a thread of its own, beside a benchmark that blocks."""
    up: list[Collector] = []
    is_up, loop = threading.Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with collecting() as receiver:
            up.append(receiver)
            is_up.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        if not is_up.wait(STARTS_WITHIN_SECONDS):
            raise RuntimeError(f"the collector of spans did not start within {STARTS_WITHIN_SECONDS:.0f} s")
        yield up[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
