"""Before and since: exchanges of a stream whose alarm stands, from before the change and from the time since."""

import msgspec

from auditors.audit_texts import Answers, Reason
from auditors.streams.scales import GAP_SUFFIX
from auditors.structs import combine
from gateway.config.schema import Config
from gateway.errors import ConflictError, NotFoundError
from gateway.reading import process
from gateway.reading.exchange_forms import Counterpart, Shown, ShownExchange, shown_counterpart, shown_reason
from gateway.reading.exchange_pages import asked_of
from gateway.reading.process import Encoded
from gateway.store import audit_texts, exchange_search, streams
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria
from gateway.store.streams import Stream
from gateway.streams.detectors import ShownDetector, shown_detector
from gateway.streams.settings import settings_of

MOST_SIDE = 50
"""Exchanges on either side."""
MOST_BESIDE = 2_000
"""Characters of each text next to scores."""
MOST_SCORES = 40
"""Most scores of an exchange, on the axis of the stream."""
CHOSEN_BEFORE = "the last ones received before the change"
CHOSEN_SINCE = "those that spoke most for the change, the strongest first, with the one that raised the alarm"
NONE = "none is stored any more: they are deleted after {days:g} days, or on request"


class BesideScores(msgspec.Struct, frozen=True):
    """The text that the stream's auditor left with its scores of an exchange."""

    judge_reasons: str | None = None
    counterpart: Counterpart | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Exchanges and means of all audits on both sides of a change. Unix seconds; own units; `reasons` explain nulls."""

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    direction: str | None
    change: float | None
    """Time at which the change began, by the exchanges' times, an estimate; if unknown, the alarm's."""
    alarm_since: float | None
    alarm_exchange_id: str | None
    """The exchange whose audit raised the alarm."""
    mean_before: float | None
    mean_since: float | None
    n_before: int | None
    n_since: int | None
    chosen_before: str
    """The way in which the exchanges of this side were chosen: they are examples, the means are of all."""
    chosen_since: str
    before: list[list[ShownExchange]]
    """The scores of each exchange by this metric on this axis."""
    since: list[list[ShownExchange]]
    beside: dict[str, BesideScores]
    """Texts by exchange, for those of which anything is kept."""
    reasons: dict[str, str]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison that is wanted: of a stream, with at most `limit` exchanges a side."""

    stream: str
    limit: int
    excerpt: int | None = None
    """Characters that are kept of each text."""


class ComparisonPage(msgspec.Struct, frozen=True):
    """A comparison, and the ids of the exchanges in it."""

    comparison: Encoded[Comparison]
    ids: list[str]


async def make_comparison(config: Config, query: Compared) -> ComparisonPage:
    """Both sides, redacted. Raises NotFoundError; ConflictError without a standing alarm; StoreError."""
    return await process.make_page(_comparison, config, query)


async def _comparison(database: Database, config: Config, query: Compared) -> ComparisonPage:
    loaded = await streams.load(database, [query.stream])
    if not loaded:
        raise NotFoundError(f'no live stream has the id "{query.stream[:100]}": GET /live/alarms lists alarms')
    [stream] = loaded
    detector = stream.state.detector
    if detector is None or not detector.alarm:
        raise ConflictError(f'no alarm of the stream "{query.stream}" stands: GET /live/alarms lists those that do')
    alarm = shown_detector(stream, settings_of(config.drift), 1)
    change = alarm.since if alarm.since is not None else stream.alarm_since
    before, since = await _sides(database, stream, detector.behind, change, query.limit)
    rows = await _rows(database, stream, [*before, *since], query.excerpt)
    reasons = {name: why for name, why in alarm.reasons.items() if name in _TOLD}
    days = config.store.retention_days
    sides = {"before": before, "since": since}
    listed = {name: [rows[id_] for id_ in ids if id_ in rows] for name, ids in sides.items()}
    reasons |= {name: NONE.format(days=days) for name, side in listed.items() if not side}
    beside = await _beside(database, stream, list(rows), query.excerpt)
    comparison = _compared(stream, alarm, change, listed, beside, reasons)
    encoded = Encoded[Comparison](msgspec.json.encode(comparison), Comparison)
    return ComparisonPage(encoded, [exchange_id for exchange_id in (*before, *since) if exchange_id in rows])


_TOLD = ("mean_before", "mean_since", "n_before", "n_since", "direction", "axis", "group")
_ALIKE = (*_TOLD, "auditor", "metric", "model", "alarm_since")


async def _sides(
    database: Database, stream: Stream, behind: list[str], change: float | None, limit: int
) -> tuple[list[str], list[str]]:
    strongest = dict.fromkeys([*behind, *filter(None, [stream.alarm_exchange_id])])
    stored = await exchange_search.load(database, strongest)
    since = [exchange_id for exchange_id in strongest if exchange_id in stored]
    if stream.alarm_exchange_id in since[limit:]:
        since[limit - 1 :] = [stream.alarm_exchange_id]
    if change is None:
        return [], since[:limit]
    measured = _measured_stream(stream)
    newest = await exchange_search.of_stream(database, measured, received_from=change, limit=limit)
    since = list(dict.fromkeys([*since, *newest]))[:limit]
    before = await exchange_search.of_stream(database, measured, received_before=change, limit=limit)
    return [exchange_id for exchange_id in before if exchange_id not in since], since


def _measured_stream(stream: Stream) -> str:
    """The stream whose measurements these are: a gap has none of its own, and is shown by those of its group."""
    if not stream.key.metric.endswith(GAP_SUFFIX):
        return stream.id
    own = msgspec.structs.replace(stream.key, metric=stream.key.metric.removesuffix(GAP_SUFFIX))
    return own.id


async def _rows(
    database: Database, stream: Stream, ids: list[str], excerpt: int | None
) -> dict[str, list[ShownExchange]]:
    criteria = Criteria(
        exchange_ids=ids,
        auditor=stream.key.auditor,
        metric=stream.key.metric.removesuffix(GAP_SUFFIX),
        axis=stream.key.axis or None,
    )
    formatter = Shown(excerpt)
    rows: dict[str, list[ShownExchange]] = {}
    for row in (await exchange_search.search(database, criteria, limit=len(ids) * MOST_SCORES)).rows:
        rows.setdefault(row.exchange.id, []).append(formatter.row(row))
    return rows


async def _beside(database: Database, stream: Stream, ids: list[str], excerpt: int | None) -> dict[str, BesideScores]:
    """Each text cut, so that all of them fit on a page."""
    longest = min(excerpt or MOST_BESIDE, MOST_BESIDE)
    scores_by_id: dict[str, BesideScores] = {}
    texts_by_id = await audit_texts.read(database, ids, auditor=stream.key.auditor)
    stored = await exchange_search.load(database, [id_ for id_ in ids if texts_by_id[id_]])
    for exchange_id, exchange in stored.items():
        match texts_by_id[exchange_id].get(stream.key.auditor):
            case Reason() as reason:
                text, _ = shown_reason(reason, longest)
                scores_by_id[exchange_id] = BesideScores(judge_reasons=text)
            case Answers() as answers if (question := asked_of(exchange)) is not None:
                scores_by_id[exchange_id] = BesideScores(counterpart=shown_counterpart(question, answers, longest))
    return scores_by_id


def _compared(
    stream: Stream,
    alarm: ShownDetector,
    change: float | None,
    sides: dict[str, list[list[ShownExchange]]],
    beside: dict[str, BesideScores],
    reasons: dict[str, str],
) -> Comparison:
    if alarm.since is None:
        reasons["change"] = "it is not known when it began: what is before the alarm is shown as before the change"
    return combine(
        Comparison,
        alarm,
        stream=stream.id,
        change=change,
        alarm_exchange_id=alarm.exchange_id,
        chosen_before=CHOSEN_BEFORE,
        chosen_since=CHOSEN_SINCE,
        before=sides["before"],
        since=sides["since"],
        beside=beside,
        reasons=reasons,
    )
