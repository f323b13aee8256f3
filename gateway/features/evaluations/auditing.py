"""The evaluation events' part in an auditor: sends what waits in the store, at least once under the same id."""

import asyncio
import logging
import math
import time
from collections.abc import Sequence

from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, counter, gauge, put
from gateway.config.schema import Config
from gateway.feature import FEATURES
from gateway.features.evaluations import store
from gateway.features.evaluations.exporter import EvaluationExporter, Sent, event_id
from gateway.features.evaluations.store import Audit, Evaluation
from gateway.store import counters, passes
from gateway.store.database import Database

logger = logging.getLogger(__name__)

BATCH_AUDITS = 64
LEASE_SECONDS = 60.0
"""Seconds that a batch belongs to a single sender: longer than an attempt takes."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""After a failure; doubled by each that follows."""
MOST_WAITING = 20_000
"""Audits whose events wait; the oldest beyond it are given up."""
LONGEST_WAIT_SECONDS = 24 * 3600.0
DROP_SECONDS = 60.0
DROPPED_AT_ONCE = 500
FINDINGS_SECONDS = 15.0
"""Pause between two looks at what features find out about alarms."""


class EvaluationEvents:
    """Call it every now and then; each call sends what is due. Raises ConfigError when it could never send."""

    def __init__(self, config: Config, database: Database, stop: asyncio.Event) -> None:
        telemetry = config.telemetry
        self._database, self._stop = database, stop
        self._longest_wait = min(LONGEST_WAIT_SECONDS, config.store.retention_days * 86400.0 / 2)
        self._exporter: EvaluationExporter | None = None
        if telemetry.otlp_endpoint is not None and telemetry.evaluation_signal is not None:
            self._exporter = EvaluationExporter(
                telemetry.otlp_endpoint, telemetry.evaluation_signal, with_reasons=telemetry.evaluation_reasons
            )
        self._pause = 0.0
        self._not_before = 0.0
        self._dropped_at = self._findings_at = 0.0
        self._told: set[tuple[str, str, float, bool]] = set()
        """Findings that were sent: feature, stream, time of the alarm, and True for a final finding."""

    async def __call__(self) -> None:
        """Raises StoreError."""
        now = time.monotonic()
        if self._exporter is None or now < self._not_before:
            return
        if now - self._dropped_at >= DROP_SECONDS:
            self._dropped_at = now
            before, lost = time.time() - self._longest_wait, 0
            while not self._stop.is_set():
                limits = {"at_most": MOST_WAITING, "limit": DROPPED_AT_ONCE}
                if not (more := await store.drop(self._database, finished_before=before, **limits)):
                    break
                lost += more
            if lost:
                logger.warning("%d evaluation events waited too long for their collector and are lost", lost)
        while not self._stop.is_set() and await self._send_some(self._exporter):
            pass
        if now - self._findings_at >= FINDINGS_SECONDS:
            self._findings_at = now
            await self._send_findings(self._exporter)

    def close(self) -> None:
        if self._exporter is not None:
            self._exporter.close()

    async def _send_some(self, exporter: EvaluationExporter) -> bool:
        """False when nothing more is due, or the collector takes nothing now."""
        now = time.time()
        audits, events = await store.take(self._database, now=now, limit=BATCH_AUDITS, seconds=LEASE_SECONDS)
        if not audits:
            return False
        sent = await asyncio.to_thread(exporter.send, events) if events else Sent("taken")
        if sent.fate == "refused" and len(audits) > 1:
            return await self._send_alone(exporter, audits, events)
        return await self._settled(exporter, audits, events, sent)

    async def _send_findings(self, exporter: EvaluationExporter) -> None:
        """Send each finding about an alarm, at least once under the same id, from the auditor that comes first."""
        for name, feature in FEATURES.items():
            final = {(stream, since) for owner, stream, since, is_final in self._told if owner == name and is_final}
            for finding in await feature.alarm_findings(self._database, final):
                key = (name, finding.stream, finding.alarm_since, finding.is_final)
                if key in self._told or time.monotonic() < self._not_before:
                    continue
                event = await store.of_finding(self._database, finding)
                if event is None or await self._is_sent(exporter, event):
                    self._told.add(key)

    async def _is_sent(self, exporter: EvaluationExporter, event: Evaluation) -> bool:
        """Return whether this or another auditor has sent the event; a sender that died is followed by the next."""
        lease, sent_before = f"event {event_id(event)}", f"sent {event_id(event)}"
        if await passes.begun_at(self._database, sent_before) is not None:
            return True
        if not await passes.take(self._database, lease, LEASE_SECONDS, time.time()):
            return False
        is_settled = await self._settled(exporter, [], [event], await asyncio.to_thread(exporter.send, [event]))
        if is_settled:
            await passes.take(self._database, sent_before, math.inf, time.time())
        await passes.forget(self._database, lease)
        return is_settled

    async def _send_alone(
        self, exporter: EvaluationExporter, audits: Sequence[Audit], events: Sequence[Evaluation]
    ) -> bool:
        """One audit at a time, so that what the collector refuses takes nothing with it."""
        for n, audit in enumerate(audits):
            own = [event for event in events if event.audit == audit]
            sent = await asyncio.to_thread(exporter.send, own) if own else Sent("taken")
            if not await self._settled(exporter, [audit], own, sent):
                await store.put_back(self._database, audits[n:], at=time.time() + self._pause)
                return False
        return True

    async def _settled(
        self, exporter: EvaluationExporter, audits: Sequence[Audit], events: Sequence[Evaluation], sent: Sent
    ) -> bool:
        if sent.fate == "later":
            if not self._pause:
                why = "no answer" if sent.status is None else f"status {sent.status}"
                logger.warning("evaluation events are not taken by %s (%s) and wait in the store", exporter.url, why)
            self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + self._pause
            await store.put_back(self._database, audits, at=time.time() + self._pause)
            return False
        if self._pause:
            logger.warning("evaluation events are taken by %s again", exporter.url)
        self._pause = 0.0
        n_rejected = min(sent.n_rejected, len(events)) if sent.fate == "taken" else len(events)
        if n_rejected:
            logger.warning("%d evaluation events were rejected by %s", n_rejected, exporter.url)
        outcomes = {"exported": len(events) - n_rejected, "rejected": n_rejected}
        await store.settle(self._database, audits, outcomes)
        return True


SEND_SECONDS = 1.0
"""Pause between two looks at what waits."""


class EvaluationsPart(AuditorPart):
    """Sends from one store."""

    def __init__(self, context: AuditorContext) -> None:
        """Raises ConfigError when the events could never be sent."""
        self._database = context.database
        self._events = EvaluationEvents(context.config, context.database, context.stop)

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(SEND_SECONDS, self._events)]

    async def families(self) -> Sequence[Metric]:
        totals = await counters.read(self._database, (store.COUNTER,))
        oldest = await store.oldest(self._database)
        words = "Events (docs/operations.md#evaluation-events): exported, rejected by the collector, dropped (too old)."
        events = counter("evaluation_events", words, ("outcome",))
        for (_, labels), total in sorted(totals.items()):
            events.add_metric(labels, total)
        lag = gauge("evaluation_events_lag_seconds", "Age of the oldest audit whose events wait; else 0.", ())
        put(lag, (), 0.0 if oldest is None else max(0.0, time.time() - oldest))
        return [events, lag]

    async def aclose(self) -> None:
        self._events.close()
