"""Records measurements once per exchange and auditor, with all that follows; a transaction takes many audits."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TypeAlias

import msgspec

from auditors.streams.drift import DriftSettings
from auditors.streams.scales import SCALES, scaled
from auditors.types import UNREAD, AuditFailure, Exchange, FailureKind, Measurement
from gateway.store import counters, ledger, measurements
from gateway.store import exchanges as store
from gateway.store.database import Connection, Database
from gateway.store.measurements import Recording, outcome_of
from gateway.streams import updates
from gateway.streams.steps import Audited

NOT_SWAPPED = "not swapped: "
"""Beginning of reasons of the counterfactual auditor."""
THINKING_EXHAUSTED = "thinking_exhausted"
WAITED_TOO_LONG = "waited too long"
"""Reason in `biasgate_abstentions_total` of what `audits.max_wait_hours` ended."""
_GIVEN_UP: Mapping[FailureKind, str] = {"waited_too_long": WAITED_TOO_LONG, "thinking_exhausted": THINKING_EXHAUSTED}
SCORE_BOUNDS = (0.0, 0.34, 0.67, 1.0)
"""Upper bounds of the buckets of a judge score on [0, 1]: one bucket for each of the scores -1, 0, 1, 2."""


Measured: TypeAlias = tuple[Exchange, Sequence[Measurement]]
"""Measurements of a single exchange."""
Follower: TypeAlias = Callable[[Connection, Sequence[Measured]], Awaitable[None]]
"""Writes what a feature derives, in the same transaction; locks its rows in key order to avoid deadlocks."""


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange of which the results of all its auditors are recorded."""

    exchange_id: str
    quality: Measured | None = None
    """Measurements of its answer apart from audits, which followers get once."""


async def record_all(
    database: Database,
    recordings: Sequence[Recording],
    settlings: Sequence[Settling] = (),
    *,
    settings: DriftSettings,
    keep_text: bool = True,
    followers: Sequence[Follower] = (),
) -> list[bool]:
    """Record audits and everything that follows from them, and settle exchanges, in a single transaction. Each audit is
    recorded once, however many try, and streams move in the order given. Every writer locks exchanges, streams, the
    tables of followers, counters and the ledger in this order, and the rows of each in the order of their keys, so that
    none deadlocks. `settlings`: exchanges to settle, as what is recorded of them says; one that is settled already
    stays. `keep_text`: whether settled exchanges keep theirs. `followers`: called, in this order, with what is new.
    Returns: of each recording, False when it had been recorded before, or the exchange is gone: it changed nothing.
    """
    ids = {recording.exchange.id for recording in recordings} | {settling.exchange_id for settling in settlings}
    async with database.begin(waits_for_disk=False) as connection:  # what is lost is still queued, and made again
        done = await measurements.lock(connection, ids)
        is_first = []
        for recording in recordings:
            is_first.append(recording.exchange.id in done and recording.auditor not in done[recording.exchange.id])
            if is_first[-1]:
                done[recording.exchange.id][recording.auditor] = outcome_of(recording.result)
        new = list(compress(recordings, is_first))
        await measurements.insert_audits(connection, new)
        states = {
            settling.exchange_id: store.state_after(done.get(settling.exchange_id, {}).values())
            for settling in settlings
        }
        settled, moved = await store.settle_all(connection, states, keep_text=keep_text)
        audits = [
            Audited(
                found=recording.found,
                exchange_id=recording.exchange.id,
                at=recording.exchange.received_at,
                model=recording.exchange.series_model,
                probability=recording.probability,
                rate_factor=recording.exchange.rate_factor,
                sender_rate=recording.exchange.sender_rate,
            )
            for recording in new
        ]
        counted = await updates.update(connection, audits, settings)
        await measurements.insert(connection, new, counted)
        qualities = [each.quality for each in settlings if each.quality is not None and each.exchange_id in settled]
        for follow in followers:
            await follow(connection, [*((each.exchange, each.found) for each in new), *qualities])
        await counters.add(connection, _increments(new))
        await ledger.add(connection, moved)
    return is_first


def counted(recording: Recording) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield what a recording adds to counters: name, label values, and the observed value: the bucket's value, or 1."""
    auditor, result = recording.auditor, recording.result
    why = (result.reason or "other",) if isinstance(result, AuditFailure) and result.kind == "not_auditable" else ()
    yield "exchanges", (outcome_of(result), auditor, *why), 1.0
    if isinstance(result, AuditFailure):
        if (reason := _GIVEN_UP.get(result.kind)) is not None:
            yield "abstentions", (auditor, reason), 1.0
        return
    left_alone = {  # words of the auditors' own, from a closed set
        measurement.reason.removeprefix(NOT_SWAPPED)
        for measurement in result
        if measurement.reason and (measurement.status == "unrelated" or measurement.reason in UNREAD)
    }
    for reason in left_alone:
        yield "abstentions", (auditor, reason), 1.0
    for measurement in result:
        if measurement.judge is None or measurement.value is None or measurement.metric not in SCALES:
            continue
        y = scaled(measurement.metric, measurement.value)
        bound = next(bound for bound in SCORE_BOUNDS if y <= bound)
        yield (
            "live_score",
            (auditor, measurement.axis or "", measurement.group or "", recording.exchange.series_model, str(bound)),
            y,
        )


def _increments(recordings: Iterable[Recording]) -> dict[tuple[str, tuple[str, ...]], float]:
    raised: Counter[tuple[str, tuple[str, ...]]] = Counter()
    totals: dict[tuple[str, tuple[str, ...]], float] = {}
    for recording in recordings:
        for name, labels, value in counted(recording):
            raised[name, labels] += 1
            if name == "live_score":
                series = ("live_score_sum", labels[:-1])
                totals[series] = totals.get(series, 0.0) + value
    return {**raised, **totals}
