"""Audits sampled exchanges: each enabled auditor once per exchange, then the exchange gets its outcome. Auditors that
ask no server go first, in a job of their own, and hand the rest on to a second job. The failure of a server whose
circuit is open is not recorded: its exchange stays queued until the server answers again or it has waited too long.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import msgspec

from auditors import registry
from auditors.answer_quality import answer_quality
from auditors.audit_texts import AuditText, Reason, SaysWhy, listening
from auditors.clients.cancellation import all_of
from auditors.clients.embedders import EmbedderError
from auditors.streams.state import MISSING, THINKING
from auditors.text.thinking import parse_thinking
from auditors.types import UNREAD, AuditFailure, Auditor, Exchange, FailureKind, KnowsWhatIsMissing, Measurement
from gateway.auditor import known_good
from gateway.auditor.backpressure.circuit_breaker import Attempt, Fault, during
from gateway.auditor.backpressure.deadline import time_limit
from gateway.auditor.backpressure.fair_slots import FairSlots
from gateway.auditor.circuits import Circuits
from gateway.auditor.enabled import EMBEDDER
from gateway.auditor.group_commit import GroupCommit
from gateway.auditor.maintenance import SERVED_TASK
from gateway.auditor.metrics import LatestExchanges
from gateway.auditor.part import AuditorContext, AuditorPart
from gateway.errors import StoreError
from gateway.sampling.decision import is_sampled
from gateway.sampling.writer.direct import IDS_PER_JOB
from gateway.store import audit_texts, exchanges
from gateway.store.audit_texts import StoredText
from gateway.store.circuits import Key, WaitingAudit
from gateway.store.measurements import Recording
from gateway.streams.recording import Measured, Settling

logger = logging.getLogger(__name__)

_FIXED_MESSAGES: tuple[FailureKind, ...] = ("not_auditable", "waited_too_long", "thinking_exhausted")
NO_UPSTREAM = "no upstream serves its model, and this auditor asks the model itself: set ingest.upstream"
REASON_SECONDS = 30.0
"""Longest time for a judge's reason; its score is recorded after it."""
LIVE_JOBS = 4
"""Batches audited at once by auditors that ask a server; each auditor's max_concurrency bounds its requests."""
FREE_JOBS = 2
"""Batches of exchanges audited at once by auditors that ask no server."""
MOST_OF_A_KEY = (LIVE_JOBS - 1) * IDS_PER_JOB
"""Most exchanges of a key in progress, if several keys exist: a slow key leaves room for a batch of another key."""
QUICK_SECONDS = 0.25
"""A key whose exchanges take less on average has no limit: its batches end before another key could wait long."""
NEWEST_WEIGHT = 0.1
"""Weight of the newest exchange in that average."""
CHECK_PATIENCE = 2.0
"""Multiple of the auditor's time limit for a known good exchange: its request may first wait for a free connection."""
NOT_STORED = "not kept (store.keep_text)"
"""Text in place of a message that may quote a server or a judge, and so a person."""


class LiveAudit:
    """Called with an "audit_exchanges" job, `{"ids": [...]}`; `by_servers` takes the jobs that it hands on."""

    def __init__(self, context: AuditorContext, circuits: Circuits, parts: Sequence[AuditorPart] = ()) -> None:
        config, enabled_auditors = context.config, context.enabled_auditors
        self._config = config
        self._database = context.database
        self._queue = context.queue
        self._circuits = circuits
        self._enabled_auditors = enabled_auditors
        self._secret = context.secret
        self._keep_text = config.store.keeps_text
        self._sends_events = config.telemetry.evaluation_signal is not None
        self.latest = LatestExchanges()
        followers = [part.recorded for part in parts]
        self._commits = GroupCommit(self._database, context.settings, keep_text=self._keep_text, followers=followers)
        self._parts = parts
        self._has_several_keys = len(config.keys) > 1
        self._slots = {
            name: FairSlots(enabled_auditors.settings[name].max_concurrency, are_shared=self._has_several_keys)
            for name in enabled_auditors.names
        }
        self._in_progress: set[str] = set()
        self._n_by_key = Counter[str | None]()
        """Exchanges in progress by key."""
        self._seconds_by_key: dict[str | None, float] = {}
        """Moving average of the seconds that an exchange of the key takes."""

    async def __call__(self, payload: dict[str, Any]) -> None:
        """Audit those queued by auditors that ask no server; hand on the rest. A StoreError repeats the job."""
        waiting = await self._audit_queued(payload["ids"], self._audit_freely)
        if waiting:
            await self._queue.defer_many(SERVED_TASK, [{"ids": waiting}])

    async def by_servers(self, payload: dict[str, Any]) -> None:
        """Audit those of these exchanges that are still queued by all auditors that are not done. Raises StoreError."""
        await self._audit_queued(payload["ids"], self._audit_exchange)

    async def audit_known_good(self, circuit: Key, model: str | None) -> Attempt:
        """Audit known good exchanges, of `model` if served, until the circuit's server was asked; record nothing."""
        attempt = Attempt(circuit.auditor, "known good", time.time())
        if circuit.server == EMBEDDER:
            with during(attempt):
                await self._enabled_auditors.embed_known_good(circuit.auditor)
            return attempt
        upstream, model = await known_good.choose_upstream(self._config, circuit.server, model)
        for exchange in known_good.build_exchanges(upstream, model):
            with during(attempt):
                await self._result(exchange, circuit.auditor, attempt, patience=CHECK_PATIENCE)
            if circuit.server in {*attempt.sound, *attempt.sick}:
                break
        return attempt

    async def give_up(self, waiting: WaitingAudit, hours: float) -> None:
        """Count an audit that waited for `hours` as failed. Raises StoreError."""
        if waiting.auditor not in self._enabled_auditors.names or waiting.exchange_id in self._in_progress:
            return
        queued = await exchanges.load(self._database, [waiting.exchange_id], state="queued")
        for exchange in queued:
            message = f"waited {hours:g} h for {waiting.server}: {waiting.error}"
            missing = await self._missing_of(waiting.auditor, exchange)
            result = _failure(waiting.auditor, "waited_too_long", message, missing)
            await self._record(exchange, waiting.auditor, result, 0.0, self._probability(exchange, waiting.auditor))
        await self._audit_queued([waiting.exchange_id], self._audit_exchange)

    async def aclose(self) -> None:
        """Wait until all results are stored."""
        await self._commits.aclose()

    async def _audit_queued(
        self, ids: Sequence[str], audit: Callable[[Exchange, Collection[str]], Awaitable[bool]]
    ) -> list[str]:
        ids = [id_ for id_ in ids if id_ not in self._in_progress]
        self._in_progress.update(ids)
        try:
            queued = await exchanges.load(self._database, ids, state="queued")
            if audit == self._audit_exchange:
                queued = self._within_share(queued)
            done = await exchanges.audits(self._database, [exchange.id for exchange in queued])
            audits = (audit(exchange, done[exchange.id]) for exchange in queued)
            results = await asyncio.gather(*audits, return_exceptions=True)
        finally:
            self._in_progress.difference_update(ids)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [exchange.id for exchange, is_settled in zip(queued, results, strict=True) if not is_settled]

    def _within_share(self, queued: Sequence[Exchange]) -> list[Exchange]:
        """The exchanges to audit now, at most MOST_OF_A_KEY of each of several keys; a sweep queues the rest again."""
        counts, within = Counter(self._n_by_key), []
        for exchange in queued:
            key = exchange.key_name
            counts[key] += 1
            is_quick = self._seconds_by_key.get(key, QUICK_SECONDS) < QUICK_SECONDS
            if not self._has_several_keys or is_quick or counts[key] <= MOST_OF_A_KEY:
                within.append(exchange)
        return within

    async def _audit_freely(self, exchange: Exchange, done: Collection[str]) -> bool:
        """Audit by the auditors that ask no server. Return whether that settled the exchange."""
        due = self._due(exchange, done)
        free = [name for name in due if not self._enabled_auditors.servers(name, exchange)]
        return await self._audit_by(exchange, free, settles=free == due)

    async def _audit_exchange(self, exchange: Exchange, done: Collection[str]) -> bool:
        """Audit by all that are not done. Return whether that settled the exchange."""
        key, started = exchange.key_name, time.monotonic()
        self._n_by_key[key] += 1
        try:
            return await self._audit_by(exchange, self._due(exchange, done), settles=True)
        finally:
            self._n_by_key[key] -= 1
            seconds = time.monotonic() - started
            average = self._seconds_by_key.get(key, seconds)
            self._seconds_by_key[key] = average + NEWEST_WEIGHT * (seconds - average)

    def _due(self, exchange: Exchange, done: Collection[str]) -> list[str]:
        return [name for name in self._enabled_auditors.names if name not in done and self._takes(exchange, name)]

    async def _audit_by(self, exchange: Exchange, names: Sequence[str], *, settles: bool) -> bool:
        must_wait = any(await all_of(self._audit(exchange, name) for name in names))
        if must_wait or not settles:
            return False
        await self._commits.put(Settling(exchange_id=exchange.id, quality=await self._quality(exchange)))
        return True

    async def _quality(self, exchange: Exchange) -> Measured | None:
        if not any(part.needs_quality(exchange) for part in self._parts):
            return None
        try:
            return exchange, await asyncio.to_thread(answer_quality, exchange)
        except Exception:  # must not keep the exchange queued
            logger.exception("the answer of exchange %s cannot be described", exchange.id)
            return None

    def _takes(self, exchange: Exchange, name: str) -> bool:
        return is_sampled(self._secret, exchange.id, self._enabled_auditors.settings[name].rate, purpose=name)

    def _probability(self, exchange: Exchange, name: str) -> float:
        return exchange.inclusion_probability * self._enabled_auditors.settings[name].rate

    async def _audit(self, exchange: Exchange, name: str) -> bool:
        """Audit an exchange. Return whether it has to wait for this auditor's server."""
        async with self._slots[name].slot(exchange.key_name):
            started = time.perf_counter()
            attempt = self._circuits.attempt(name, exchange, self._enabled_auditors.servers(name, exchange))
            keeps_words = self._keep_text and self._enabled_auditors.settings[name].keeps_words
            with during(attempt), listening() if keeps_words else nullcontext() as texts_of_audit:
                result = await self._result(exchange, name, attempt)
            seconds = time.perf_counter() - started
            texts = [*(texts_of_audit or ()), *(await self._reasons(exchange, name, result) if keeps_words else ())]
        if await self._circuits.must_wait(attempt, exchange.served_model):
            return True
        probability = self._probability(exchange, name)
        try:
            await self._record(exchange, name, result, seconds, probability, texts)
        except StoreError:
            raise
        except Exception as exc:  # measurements that cannot be stored are a fault of the auditor
            logger.exception("measurements of %s on exchange %s cannot be recorded", name, exchange.id)
            await self._record_fault(exchange, name, exc, seconds, probability)
        return False

    async def _result(
        self, exchange: Exchange, name: str, attempt: Attempt, *, patience: float = 1.0
    ) -> Sequence[Measurement] | AuditFailure:
        if not exchange.request_body:  # it was sealed with a key that is no longer configured
            return _failure(name, "unavailable", "its text can no longer be decrypted")
        if self._enabled_auditors.clients[name].lacks_server(exchange):
            return msgspec.structs.replace(_failure(name, "not_auditable", NO_UPSTREAM), reason="no_upstream")
        try:
            auditor = await self._enabled_auditors.get(name)
        except EmbedderError as exc:
            attempt.failed(EMBEDDER, Fault("unavailable", str(exc), True))
            return _failure(name, "unavailable", _describe(exc))
        except Exception as exc:  # no auditor's fault may stop the audits
            logger.exception("auditor %s cannot be built", name)
            return _failure(name, "internal", _describe(exc))
        try:
            seconds = patience * self._enabled_auditors.settings[name].timeout_seconds
            async with time_limit(seconds, partial(self._enabled_auditors.clients[name].held_seconds, exchange)):
                return with_detail(await auditor.audit(exchange), self._detail(name))
        except TimeoutError as exc:
            return _failure(name, "timeout", _describe(exc), await self._missing_of(name, exchange))
        except Exception as exc:
            logger.exception("auditor %s failed on exchange %s", name, exchange.id)
            return _failure(name, "internal", _describe(exc), await self._missing_of(name, exchange))

    async def _reasons(
        self, exchange: Exchange, name: str, result: Sequence[Measurement] | AuditFailure
    ) -> Sequence[AuditText]:
        if isinstance(result, AuditFailure):
            return ()
        auditor = await self._enabled_auditors.get(name)
        if not isinstance(auditor, SaysWhy):
            return ()
        try:
            async with asyncio.timeout(REASON_SECONDS):
                reason = await auditor.reason(exchange, result)
        except TimeoutError:
            reason = Reason(why_none=f"the judge was asked for a reason and gave none within {REASON_SECONDS:g} s")
        except Exception:
            logger.exception("auditor %s cannot be asked for a reason on exchange %s", name, exchange.id)
            return ()
        return () if reason is None else (reason,)

    def _detail(self, name: str) -> Mapping[str, Any]:
        thinking = self._enabled_auditors.settings[name].thinking
        return {} if thinking is None else {THINKING: str(parse_thinking(thinking))}

    async def _record_fault(
        self, exchange: Exchange, name: str, exc: Exception, seconds: float, probability: float
    ) -> None:
        """Record measurements that cannot be stored as missing, or only the failure if that cannot be stored either."""
        missing = await self._missing_of(name, exchange)
        try:
            await self._record(
                exchange, name, _failure(name, "internal", _describe(exc), missing), seconds, probability
            )
        except StoreError:
            raise
        except Exception:
            logger.exception("missing measurements of %s on exchange %s cannot be recorded", name, exchange.id)
            await self._record(exchange, name, _failure(name, "internal", _describe(exc)), seconds, probability)

    async def _missing_of(self, name: str, exchange: Exchange) -> Sequence[Measurement]:
        try:
            missing = await _missing(await self._enabled_auditors.get(name), exchange)
        except EmbedderError:  # without an embedder the instrument is unknown
            return ()
        return [_add_detail(measurement, self._detail(name)) for measurement in missing]

    async def _record(
        self,
        exchange: Exchange,
        name: str,
        result: Sequence[Measurement] | AuditFailure,
        seconds: float,
        probability: float,
        texts: Sequence[AuditText] = (),
    ) -> None:
        text = await self._sealed_text(exchange, name, texts[-1]) if texts else None
        result = result if self._keep_text else without_words(result)
        recording = Recording(
            exchange=exchange,
            auditor=name,
            result=result,
            seconds=seconds,
            probability=probability,
            sends_events=self._sends_events,
            text=text,
        )
        await self._commits.put(recording)
        self.latest.note(recording)

    async def _sealed_text(self, exchange: Exchange, name: str, text: AuditText) -> StoredText | None:
        try:
            return await asyncio.to_thread(audit_texts.entered, self._database.texts, text)
        except Exception:  # the numbers are stored without it
            logger.exception("the text of %s about exchange %s cannot be stored", name, exchange.id)
            return None


def with_detail(
    result: Sequence[Measurement] | AuditFailure, detail: Mapping[str, Any]
) -> Sequence[Measurement] | AuditFailure:
    """Return the result with `detail` added to every measurement, missing ones included."""
    if isinstance(result, AuditFailure):
        return msgspec.structs.replace(
            result, missing=[_add_detail(measurement, detail) for measurement in result.missing]
        )
    return [_add_detail(measurement, detail) for measurement in result]


def _add_detail(measurement: Measurement, detail: Mapping[str, Any]) -> Measurement:
    return msgspec.structs.replace(measurement, detail={**measurement.detail, **detail}) if detail else measurement


def without_words(result: Sequence[Measurement] | AuditFailure) -> Sequence[Measurement] | AuditFailure:
    """The result without errors and bad verdicts, which may quote a person; fixed phrases and reasons stay."""
    if isinstance(result, AuditFailure):
        message = result.message if result.kind in _FIXED_MESSAGES else NOT_STORED
        return msgspec.structs.replace(result, message=message, missing=list(map(_without_reason, result.missing)))
    return list(map(_without_reason, result))


def _without_reason(measurement: Measurement) -> Measurement:
    has_words = measurement.status in MISSING and measurement.reason is not None and measurement.reason not in UNREAD
    return msgspec.structs.replace(measurement, reason=NOT_STORED) if has_words else measurement


async def _missing(auditor: Auditor, exchange: Exchange) -> Sequence[Measurement]:
    """Return the measurements that a failed audit owes: they widen the bounds as malformed answers do."""
    if not isinstance(auditor, KnowsWhatIsMissing):
        return ()
    try:
        return await asyncio.to_thread(auditor.missing, exchange)
    except Exception:  # the cause of the failed audit may fail this too
        logger.exception("auditor %s cannot list the missing measurements of exchange %s", auditor.name, exchange.id)
        return ()


def _describe(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}".rstrip(": ")


def _failure(name: str, kind: FailureKind, message: str, missing: Sequence[Measurement] = ()) -> AuditFailure:
    version = registry.AUDITORS[name].version
    return AuditFailure(auditor=name, auditor_version=version, kind=kind, message=message, missing=missing)
