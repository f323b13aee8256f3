"""Audit requests of clients (`x-biasgate-priority: audit`) give way to live ones. They are sent at `audits.priority`,
which orders the server's queue but frees no slot there. So every LOOK_SECONDS this looks whether live requests have
waited for longer than usual (`patience`), at any worker, and cuts off the newest half of the audits in flight, or as
many as wait if those are more: 429 `audit_deferred`, for those that come meanwhile too. Where no audit has been in
flight for `audits.max_pause_seconds`, the next is let through and not cut off. The same look writes the `waits_board`.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from gateway.config.schema import Config
from gateway.proxy.live_waits import AuditExchange, Waits
from gateway.proxy.patience import Patience
from gateway.proxy.refusals import AUDIT_DEFERRED, Refusal
from gateway.proxy.types import RequestStats
from gateway.proxy.upstreams import Upstream
from gateway.proxy.waits_board import LOOK_SECONDS, BoardFile, BoardReader
from gateway.proxy.wasted_tokens import wasted_tokens
from gateway.ticks import every

logger = logging.getLogger(__name__)

HOLD_SECONDS = 1.0
"""After live requests were last seen to wait for too long, before the next audit is taken; what a 429 asks for."""


class GivingWay:
    """Lets a data plane's audits give way. Use from the event loop's thread; times are time.perf_counter()."""

    def __init__(self, config: Config, upstreams: Sequence[Upstream], stats: RequestStats) -> None:
        """Opens no file; a file that cannot be written leaves each worker with its own knowledge."""
        self._stats = stats
        self._is_on = config.audits.adaptive_concurrency
        self._max_pause = config.audits.max_pause_seconds
        self._at = {upstream: _AtUpstream() for upstream in upstreams}
        self._directory = Path(config.server.metrics_dir) if config.server.metrics_dir else None
        self._file: BoardFile | None = None
        self._reader: BoardReader | None = None
        self._seen: tuple[int, int] | None = None
        """Requests in flight and answered ever, at the last look."""

    def refusal(self, upstream: Upstream, now: float) -> Refusal | None:
        """Why an audit request is not sent to an upstream now; None when it is."""
        if not self._is_on:
            return None
        place = self._at[upstream]
        waits = upstream.waits.snapshot(upstream.outstanding).plus(place.elsewhere)
        if now - place.overdue_at >= HOLD_SECONDS and not place.patience.overdue(waits, now):
            place.busy_at = now
            return None
        if place.busy_at is None:
            place.busy_at = now
        if not upstream.waits.audits.waiting and now - place.busy_at >= self._max_pause:
            place.busy_at = now
            place.spares_next = True
            return None
        return AUDIT_DEFERRED

    async def watch(self) -> None:
        self._open()
        try:
            await every(LOOK_SECONDS, lambda _: self.look(perf_counter()))
        finally:
            if self._file is not None and self._reader is not None:
                self._file.close()
                self._reader.close()
                self._file = self._reader = None

    def look(self, now: float) -> None:
        """Shows what waits, and cuts audits off where that is too long."""
        if self._is_still():
            if self._file is not None:
                self._file.show_again(now)
            return
        own = {upstream: upstream.waits.snapshot(upstream.outstanding) for upstream in self._at}
        if self._file is not None:
            board: dict[str, Waits] = {}
            for upstream, waits in own.items():
                board[upstream.origin] = board[upstream.origin].plus(waits) if upstream.origin in board else waits
            self._file.show(board, now)
        if not self._is_on:
            return
        has_audits = any(upstream.waits.audits.waiting for upstream in self._at)
        other_waits = self._reader.read(now) if has_audits and self._reader is not None else None
        for upstream, place in self._at.items():
            place.patience.update(own[upstream], audits=len(upstream.waits.audits.waiting), now=now)
            place.elsewhere = (other_waits or {}).get(upstream.origin, _NONE)
            self._make_way(upstream, place, own[upstream].plus(place.elsewhere), now)

    def _is_still(self) -> bool:
        before, in_flight, answered = self._seen, 0, 0
        for upstream, place in self._at.items():
            in_flight += upstream.outstanding + place.spares_next
            answered += upstream.waits.streams.answered + upstream.waits.replies.answered
        self._seen = in_flight, answered
        return not in_flight and self._seen == before

    def _make_way(self, upstream: Upstream, place: "_AtUpstream", waits: Waits, now: float) -> None:
        audits = upstream.waits.audits.waiting
        if audits:
            place.busy_at = now
        if place.spares_next:  # it began since the last look, and nobody after it
            place.spared, place.spares_next = next(reversed(audits), None), False
        if place.spared not in audits:
            place.spared = None
        overdue = place.patience.overdue(waits, now)
        if not overdue:
            return
        place.overdue_at = now
        running = [audit for audit in reversed(audits) if audit is not place.spared]
        if not running:
            return
        for cut_audit in running[: max(overdue, -(-len(running) // 2))]:
            tokens = wasted_tokens(cut_audit.content, now - cut_audit.sent_at)
            cut_audit.cut_off()
            self._stats.audit_evicted(upstream.name, prompt_tokens=tokens.prompt, generation_tokens=tokens.generation)
        place.patience.audits_were_cut(now)

    def _open(self) -> None:
        if self._directory is None:
            return
        try:
            self._file = BoardFile(self._directory)
        except OSError as exc:
            logger.warning("server.metrics_dir %s: what waits cannot be shown there: %s", self._directory, exc.strerror)
            return
        self._reader = BoardReader(self._directory, without=self._file.name)


_NONE = Waits()


class _AtUpstream:
    def __init__(self) -> None:
        self.patience = Patience()
        self.elsewhere = _NONE
        """What the other workers last showed."""
        self.overdue_at = -math.inf
        self.busy_at: float | None = None
        """When an audit was last in flight, or first turned away."""
        self.spares_next = False
        self.spared: AuditExchange | None = None
        """The one that was let through although live requests wait: it is not cut off."""
