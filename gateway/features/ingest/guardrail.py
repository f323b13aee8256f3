"""Holds calls of LiteLLM's guardrail API in memory, by exchange, until it is quiet; live requests wait."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping

import msgspec

from gateway.errors import GatewayError, StoreError
from gateway.features.ingest.intake import Intake
from gateway.features.ingest.litellm import together
from gateway.features.ingest.reading import BodyReader
from gateway.features.ingest.received import Part, Sent
from gateway.proxy.admission import Client
from gateway.ticks import next_tick
from gateway.worker_part import WorkerContext, WorkerPart

logger = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
FLUSH_SECONDS = 1.0
MOST_CALL_BYTES = 4 * 1024 * 1024
"""Largest call, in bytes; a larger one is counted as rejected."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes of all calls that are held; more are refused to be held, and counted as rejected."""
MOST_MERGED_BYTES = 256 * 1024 * 1024
"""Bytes merged for one exchange, 10 MB for a streamed answer of 4,000 tokens; calls beyond are counted as rejected."""
STOP_SECONDS = 10.0


class _Held(msgspec.Struct):
    part: Part
    client: Client
    n_asked: int
    """Bytes of the call that brought the messages."""
    n_answered: int
    """Bytes of the choices."""
    merged: int
    """Bytes of choices that were put together so far."""
    until: float
    """time.monotonic() at which it has been quiet for long enough."""

    @property
    def size(self) -> int:
        return self.n_asked + self.n_answered


class GuardrailCalls:
    """The guardrail calls of a worker. Call `start` once the event loop runs and `stop` before the intake's."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.reading = BodyReader()
        """Its own: nobody's request waits for the large body of another door."""
        self._held: dict[str, _Held] = {}
        self._bytes = 0
        self._flushing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._flushing = asyncio.create_task(self._flush_regularly(), name="guardrail-calls")

    async def stop(self) -> None:
        """Hands on what is held, if the store takes it."""
        if self._flushing is not None:
            self._flushing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._flushing
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self.flush(everything=True)
        if self._held:
            logger.error(
                "%d calls of a guardrail were lost: the store did not take them before the end", len(self._held)
            )

    def put(self, part: Part, client: Client, size: int) -> None:
        """Holds a call of so many bytes."""
        held = self._held.get(part.id)
        merged_before = held.merged if held else 0
        if self._bytes + size > MOST_BYTES or merged_before > MOST_MERGED_BYTES:
            self._intake.note("litellm", {"rejected": 1})
            return
        whole = part if held is None else together(held.part, part)
        n_answered = len(msgspec.json.encode(whole.answered))
        n_asked = max(size if part.asked else 0, held.n_asked if held else 0)
        merged = merged_before + n_answered
        self._bytes += n_asked + n_answered - (held.size if held else 0)
        self._held.pop(part.id, None)  # it goes to the end: they lie in the order in which they become quiet
        self._held[part.id] = _Held(whole, client, n_asked, n_answered, merged, time.monotonic() + QUIET_SECONDS)

    async def flush(self, *, everything: bool = False) -> None:
        """Hands on what has been quiet; what the store does not take now stays."""
        now = time.monotonic()
        due = [held for held in self._held.values() if everything or held.until <= now]
        for call in due:
            await self._hand_on(call)

    async def _hand_on(self, call: _Held) -> None:
        try:
            await self._intake.take(Sent(parts=[call.part]), "litellm", call.client)
        except StoreError as exc:
            logger.warning("a guardrail's call waits to be stored: %s", exc)
            return
        except GatewayError as exc:
            logger.error("a guardrail's call is lost: %s", exc)
        if self._held.get(call.part.id) is call:  # else a call came meanwhile, with which it is held on
            del self._held[call.part.id]
            self._bytes -= call.size

    async def _flush_regularly(self) -> None:
        while True:
            await next_tick(FLUSH_SECONDS)
            try:
                await self.flush()
            except Exception:
                logger.exception("calls of a guardrail cannot be handed on")


class IngestPart(WorkerPart):
    """One worker's."""

    def __init__(self, context: WorkerContext) -> None:
        planes = context.planes
        self.intake = Intake(lambda: planes.current, context.tap, context.open_sink(), context.database, context.stats)
        self.guardrail_calls = GuardrailCalls(self.intake)

    def dependencies(self) -> Mapping[str, object]:
        return {"intake": self.intake, "guardrail_calls": self.guardrail_calls}

    def start(self) -> None:
        self.intake.start()
        self.guardrail_calls.start()

    async def stop(self) -> None:
        await self.guardrail_calls.stop()
        await self.intake.stop()
