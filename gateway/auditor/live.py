"""Audits sampled exchanges: each enabled auditor once per exchange, then the exchange gets its outcome."""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from auditors import registry
from auditors.clients.embedders import EmbedderError
from auditors.streams.drift import DriftSettings
from auditors.streams.state import MISSING
from auditors.types import AuditFailure, Auditor, Exchange, FailureKind, KnowsWhatIsMissing, Measurement
from gateway.auditor.backpressure.deadline import time_limit
from gateway.auditor.enabled import EnabledAuditors
from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.sampling.decision import is_sampled
from gateway.store import exchanges, measurements
from gateway.store.database import Database

logger = logging.getLogger(__name__)

NO_WORDS = "not kept (store.keep_text)"
"""In place of a message that may repeat what a server or a judge said, and that what somebody wrote."""


class LiveAudit:
    """The handler of "audit_exchanges" jobs: `{"ids": [...]}`."""

    def __init__(
        self,
        config: Config,
        database: Database,
        enabled_auditors: EnabledAuditors,
        secret: bytes,
        settings: DriftSettings,
    ) -> None:
        self._database = database
        self._enabled_auditors = enabled_auditors
        self._secret = secret
        self._keep_text = config.store.keeps_text
        self._settings = settings
        self._slots = {
            name: asyncio.Semaphore(enabled_auditors.settings(name).max_concurrency) for name in enabled_auditors.names
        }
        self._in_progress: set[str] = set()

    async def __call__(self, payload: dict[str, Any]) -> None:
        """Audits what is still queued of these exchanges. Raises StoreError; the job is then tried again."""
        ids = [one for one in payload["ids"] if one not in self._in_progress]
        self._in_progress.update(ids)
        try:
            queued = await exchanges.load(self._database, ids, state="queued")
            results = await asyncio.gather(*map(self._audit_exchange, queued), return_exceptions=True)
        finally:
            self._in_progress.difference_update(ids)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _audit_exchange(self, exchange: Exchange) -> None:
        done = (await exchanges.audits(self._database, [exchange.id]))[exchange.id]
        due = [name for name in self._enabled_auditors.names if name not in done and self._takes(exchange, name)]
        await asyncio.gather(*(self._audit(exchange, name) for name in due))
        outcomes = set((await exchanges.audits(self._database, [exchange.id]))[exchange.id].values())
        await exchanges.settle(self._database, exchange.id, _state(outcomes), keep_text=self._keep_text)

    def _takes(self, exchange: Exchange, name: str) -> bool:
        return is_sampled(self._secret, exchange.request_id, self._enabled_auditors.settings(name).rate, purpose=name)

    async def _audit(self, exchange: Exchange, name: str) -> None:
        async with self._slots[name]:
            started = time.perf_counter()
            result = await self._result(exchange, name)
            seconds = time.perf_counter() - started
        probability = exchange.inclusion_probability * self._enabled_auditors.settings(name).rate
        try:
            await self._record(exchange, name, result, seconds, probability)
        except StoreError:
            raise
        except Exception as exc:  # measurements that cannot be stored are a fault of the auditor, counted as one
            logger.exception("measurements of %s on exchange %s cannot be recorded", name, exchange.id)
            await self._record_fault(exchange, name, exc, seconds, probability)

    async def _result(self, exchange: Exchange, name: str) -> Sequence[Measurement] | AuditFailure:
        try:
            auditor = await self._enabled_auditors.get(name)
        except EmbedderError as exc:
            return _failure(name, "unavailable", exc)
        except Exception as exc:  # no auditor's fault may stop the audits
            logger.exception("auditor %s cannot be built", name)
            return _failure(name, "internal", exc)
        try:
            seconds = self._enabled_auditors.settings(name).timeout_seconds
            async with time_limit(seconds, partial(self._enabled_auditors.held_seconds, name, exchange)):
                return await auditor.audit(exchange)
        except TimeoutError as exc:
            return _failure(name, "timeout", exc, await _missing(auditor, exchange))
        except Exception as exc:
            logger.exception("auditor %s failed on exchange %s", name, exchange.id)
            return _failure(name, "internal", exc, await _missing(auditor, exchange))

    async def _record_fault(
        self, exchange: Exchange, name: str, exc: Exception, seconds: float, probability: float
    ) -> None:
        """What was due and cannot be stored is missing, unless that cannot be stored either."""
        missing = await _missing(await self._enabled_auditors.get(name), exchange)
        try:
            await self._record(exchange, name, _failure(name, "internal", exc, missing), seconds, probability)
        except StoreError:
            raise
        except Exception:
            logger.exception("what %s lacks of exchange %s cannot be recorded", name, exchange.id)
            await self._record(exchange, name, _failure(name, "internal", exc), seconds, probability)

    async def _record(
        self,
        exchange: Exchange,
        name: str,
        result: Sequence[Measurement] | AuditFailure,
        seconds: float,
        probability: float,
    ) -> None:
        result = result if self._keep_text else without_words(result)
        await measurements.record(
            self._database, exchange, name, result, seconds, probability=probability, settings=self._settings
        )


def without_words(result: Sequence[Measurement] | AuditFailure) -> Sequence[Measurement] | AuditFailure:
    """The same without messages that quote somebody: a server's error and an odd verdict may repeat the prompt.

    What cannot be audited is described in our own words, and stays; so do the reasons of what was left alone.
    """
    if isinstance(result, AuditFailure):
        message = result.message if result.kind == "not_auditable" else NO_WORDS
        return msgspec.structs.replace(result, message=message, missing=list(map(_without_reason, result.missing)))
    return list(map(_without_reason, result))


def _without_reason(one: Measurement) -> Measurement:
    has_words = one.status in MISSING and one.reason is not None
    return msgspec.structs.replace(one, reason=NO_WORDS) if has_words else one


def _state(outcomes: set[str]) -> exchanges.State:
    """Audited when any auditor gave a result, failed when all failed, sampled out when none was due."""
    if "audited" in outcomes:
        return "audited"
    return "failed" if outcomes else "sampled_out"


async def _missing(auditor: Auditor, exchange: Exchange) -> Sequence[Measurement]:
    """A model that hangs, or a fault of ours, must widen bounds as a model that answers nonsense does."""
    if not isinstance(auditor, KnowsWhatIsMissing):
        return ()
    try:
        return await asyncio.to_thread(auditor.missing, exchange)
    except Exception:  # what the audit failed of may fail this too
        logger.exception("auditor %s cannot say what is missing of exchange %s", auditor.name, exchange.id)
        return ()


def _failure(name: str, kind: FailureKind, exc: Exception, missing: Sequence[Measurement] = ()) -> AuditFailure:
    message = f"{type(exc).__name__}: {exc}".rstrip(": ")
    version = registry.AUDITORS[name].version
    return AuditFailure(auditor=name, auditor_version=version, kind=kind, message=message, missing=missing)
