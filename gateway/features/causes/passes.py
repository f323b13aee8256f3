"""Works on the cause of each standing alarm, in stored steps, on streams that an auditor leases for LEASE_SECONDS."""

import logging
import math
import time
from collections.abc import Sequence
from itertools import chain, cycle

import numpy as np
from prometheus_client.core import Metric

from auditors import registry
from auditors.clients.cancellation import all_of
from auditors.clients.embedders import EmbedderError
from auditors.streams.scales import GAP_SUFFIX, scale_of
from auditors.text.conversation import NotAuditableError
from auditors.types import Exchange
from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, interval, put
from gateway.features.causes import store
from gateway.features.causes.asking import Asking, UnansweredError
from gateway.features.causes.split import gap_blocks, judged, quiet_before, to_cross
from gateway.features.causes.store import LEAST_ASKED, MOST_ASKED, MOST_BESIDE, MOST_SINCE, Audit, Row, Work
from gateway.store import exchanges, passes, streams
from gateway.store.database import Database
from gateway.store.streams import Stream

logger = logging.getLogger(__name__)

LEASE_SECONDS = 120.0
AT_ONCE = 8
"""Exchanges of a step; the auditor's own limits say how many requests are in flight."""
LONGEST_SECONDS = 48 * 3600.0
"""After so long nothing more is asked, and what is not told is given up."""

SECONDS = 1.0
LABELS = ("part", "auditor", "metric", "axis", "group", "model")
WORDS = "Part of a standing alarm's shift that judge, model, traffic or application makes (docs/drift.md)."


class CausesPart(AuditorPart):
    """Works on the causes of the alarms in one store, and exposes what was told."""

    def __init__(self, context: AuditorContext) -> None:
        self._database: Database = context.database
        self._config = context.config
        self._enabled = context.enabled_auditors
        self._stop = context.stop
        self._asking = Asking(context.enabled_auditors, context.secret)
        self._due: dict[tuple[str, float], float] = {}
        """When to look again, by stream and the time of its alarm."""

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(SECONDS, self.step)]

    async def families(self) -> Sequence[Metric]:
        return await read_families(self._database)

    async def step(self) -> None:
        """Take a step with each alarm whose cause is open. Raises StoreError."""
        alarms = [*(await store.alarmed(self._database)).items()]
        self._due = {alarm: self._due.get(alarm, 0.0) for alarm in alarms}
        for stream, since in alarms:
            now = time.time()
            lease = f"cause lease:{stream}"
            if self._stop.is_set():
                return
            if self._due[stream, since] > now or not await passes.take(self._database, lease, LEASE_SECONDS, now):
                continue
            is_answered = await self._step(stream, since)
            if is_answered:  # a server that fails is left alone until the lease ends
                await passes.forget(self._database, lease)

    async def _step(self, stream: str, since: float) -> bool:
        """Go on with an alarm. Return whether whatever was asked was answered."""
        work = await store.read(self._database, stream)
        if work is None or work.alarm_since != since:
            loaded = await streams.load(self._database, [stream])
            if not loaded or loaded[0].alarm_since != since:
                return True
            work = await self._begun(loaded[0], since)
        is_answered, n_asked = True, work.asked
        if not work.is_over:
            [series] = await streams.load(self._database, [stream])
            await self._read_since(series, work)
            sides = to_cross(work)
            matched = [zip(rows, cycle(opposite)) for rows, opposite in (sides, sides[::-1])]
            pairs = [(row, other) for row, other in chain(*matched) if not row.is_crossed][:AT_ONCE]
            if pairs and len(work.answered) >= LEAST_ASKED:
                pages = await self._loaded([row for pair in pairs for row in pair])
                stored = {row.id: exchange for row, exchange in pages}
                tasks = [self._crossed(series, row, stored[row.id], stored[other.id]) for row, other in pairs]
            else:
                rows = await self._loaded(work.waiting[:AT_ONCE])
                tasks = [self._again(series, row, exchange) for row, exchange in rows]
            outcomes = await all_of(tasks)
            work.asked += len(outcomes)
            is_answered = not outcomes or any(outcomes)
            work = judged(work)
            if time.time() - work.begun_at > LONGEST_SECONDS:
                work = work if work.status == "told" else work.give_up(f"{work.reason}, and two days have passed")
                work.is_over = True
        if not is_answered and work.status == "pending":
            work.reason = "the served model, or the judge, does not answer"
        await store.write(self._database, stream, work)
        is_idle = not work.waiting and work.asked == n_asked
        age = time.time() - since
        self._due[stream, since] = math.inf if work.is_over else time.time() + min(age / 20.0, 60.0) * is_idle
        return is_answered

    async def _begun(self, stream: Stream, since: float) -> Work:
        """Draw the exchanges of before, or say why nothing can be told."""
        key = stream.key
        work = Work(alarm_since=since, metric=key.metric, begun_at=time.time(), reason="it has just begun")
        work.group = key.group if key.metric.endswith(GAP_SUFFIX) else ""
        audits = await store.newest(self._database, *await store.sides(self._database, stream))
        if reason := self._why_never(stream, audits):
            return work.give_up(reason)
        quiet = [audit for audit in _quiet(stream, audits) if audit.has_text and audit.exchange_id]
        beside = [audit for audit in quiet if audit.score is None and audit.rest is not None]
        before = [audit for audit in quiet if audit.score is not None or audit.rest is None]
        n_stored = len(before)
        if work.group:
            n_stored = min(n_stored, sum(audit.rest is not None for audit in quiet))
        if n_stored < LEAST_ASKED:
            about = " about the group, or about the others," if work.group else ""
            text = f"the text of {n_stored} exchanges{about} from before the change is stored"
            return work.give_up(f"{text}, and {LEAST_ASKED} are needed (store.retention_days)")
        if not work.group and registry.AUDITORS[key.auditor].asks_upstream == "without a server of its own":
            ids = {audit.exchange_id for audit in audits}
            around = await store.beside(self._database, key, before[0].at, before[-1].at)
            beside = [audit for audit in around if audit.has_text and audit.exchange_id not in ids]
        further = store.sampled(beside, stream.id, MOST_BESIDE, True)
        work.before = store.mixed(store.sampled(before, stream.id, MOST_ASKED), further)
        for row, exchange in await self._loaded(work.before):
            self._describe(row, exchange)
        return work

    def _why_never(self, stream: Stream, audits: Sequence[Audit]) -> str | None:
        key = stream.key
        if key.auditor not in self._enabled.names or key.auditor not in registry.AUDITORS:
            return f"no live auditor {key.auditor} that could judge again is enabled"
        if scale_of(key.metric).is_ratio:
            return "a ratio has no parts that add up"
        if not key.is_sampling_known:
            return "it is not known how its exchanges were sampled"
        if not self._config.store.keeps_text:
            return "no text is kept (store.keep_text)"
        if self._asks_itself(key.auditor) and any(audit.is_judged for audit in audits):
            return "the answers that its judge scored are not stored"
        return None

    def _asks_itself(self, auditor: str) -> bool:
        return registry.AUDITORS[auditor].asks_upstream == "always"

    async def _read_since(self, stream: Stream, work: Work) -> None:
        if work.least(work.since) >= MOST_SINCE:
            return
        ids = {None, *(row.id for row in work.since)}
        audits = await store.after(self._database, *await store.sides(self._database, stream), work.alarm_since)
        new = [store.row_of(audit) for audit in audits if audit.has_text and audit.exchange_id not in ids]
        for row, exchange in await self._loaded(new):
            if exchange is not None:
                self._describe(row, exchange)
                work.since.append(row)

    async def _loaded(self, rows: Sequence[Row]) -> list[tuple[Row, Exchange | None]]:
        loaded = {each.id: each for each in await exchanges.load(self._database, [row.id for row in rows])}
        return [(row, loaded.get(row.id)) for row in rows]

    def _describe(self, row: Row, exchange: Exchange | None) -> None:
        try:
            if exchange is not None:
                row.opening, row.is_first, row.fingerprint = self._asking.digests(exchange)
        except NotAuditableError as exc:
            row.why_left_out = exc.reason.replace("_", " ")

    async def _again(self, stream: Stream, row: Row, exchange: Exchange | None) -> bool:
        if exchange is None or not exchange.request_body:
            row.why_left_out = "its text is gone"
            return True
        try:
            if self._asks_itself(stream.key.auditor) or (row.is_beside and row.rest.then is None):
                row.again, row.rest.again = row.then, row.rest.then  # as code or an embedder would score it now
            else:
                row.again, row.rest.again = await self._asking.judged(stream, exchange)
            new = await self._asking.answered(stream.key.auditor, exchange)
            row.anew, row.rest.anew = await self._asking.judged(stream, new)
        except (UnansweredError, EmbedderError) as exc:
            if isinstance(exc, UnansweredError) and exc.is_final:
                row.why_left_out = exc.kind
                return True
            return False
        row.is_answered = True
        return True

    async def _crossed(self, stream: Stream, row: Row, exchange: Exchange | None, other: Exchange | None) -> bool:
        """Ask an exchange under the conditions of another; return False when a server did not answer."""
        try:
            if exchange is not None and other is not None and exchange.request_body and other.request_body:
                new = await self._asking.answered(stream.key.auditor, exchange, other)
                row.crossed, row.rest.crossed = await self._asking.judged(stream, new)
        except (UnansweredError, EmbedderError) as exc:
            if not (isinstance(exc, UnansweredError) and exc.is_final):
                return False
        row.is_crossed = True
        return True


def _quiet(stream: Stream, audits: Sequence[Audit]) -> Sequence[Audit]:
    """Return the audits of before: those that came before the change for certain."""
    detector = stream.state.detector
    change = None if detector is None else detector.change_evidence.since
    if change is None:
        return []
    columns = [(audit.score, audit.rest, audit.weight) for audit in audits]
    scores, rest, weights = np.array(columns, dtype=np.float64).reshape(-1, 3).T  # None: NaN
    last = np.flatnonzero(~np.isnan(scores))
    if stream.key.metric.endswith(GAP_SUFFIX):
        scores, weights, last = gap_blocks(scores, rest, weights)
    else:
        scores, weights = scores[last], weights[last]
    at = np.array([audit.at for audit in audits])[last]
    n = quiet_before(scores, weights, int((at < change).sum()))
    return [audit for audit in audits if n and audit.at <= at[n - 1]]


async def read_families(database: Database) -> Sequence[Metric]:
    """Read the metric families of the causes of the alarms that stand. Raises StoreError."""
    parts = interval("drift_cause", WORDS, LABELS)
    works = await store.standing(database)
    keys = {stream.id: stream.key for stream in await streams.load(database, list(works))}
    told = [(keys[stream], work) for stream, work in works.items() if stream in keys]
    by_series = {(key.auditor, key.metric, key.axis, key.group, key.model): work for key, work in told}
    for labels, work in by_series.items():
        for name, *numbers in work.parts:
            for family, value in zip(parts, numbers, strict=True):
                put(family, (name, *labels), value)
    return parts
