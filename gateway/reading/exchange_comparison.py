"""Before and since: exchanges of a stream whose alarm stands, from before the change and from the time since."""

import msgspec

from auditors.audit_texts import Answers, Reason
from auditors.streams.scales import GAP_SUFFIX
from gateway.config.schema import Config
from gateway.errors import ConflictError, NotFoundError
from gateway.reading import process
from gateway.reading.encoded import Encoded
from gateway.reading.exchange_forms import Counterpart, Shown, ShownExchange, shown_counterpart, shown_reason
from gateway.reading.exchange_pages import asked_of
from gateway.store import audit_texts, exchange_search, streams
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria
from gateway.store.streams import Stream
from gateway.streams.detectors import ShownDetector, shown_detector
from gateway.streams.settings import settings_of

MOST_SIDE = 50
"""Exchanges on either side."""
MOST_BESIDE = 2_000
"""Characters of each text beside scores."""
MOST_SCORES = 40
"""Of one exchange, on the axis of the stream."""
CHOSEN_BEFORE = "the last ones received before the change"
CHOSEN_SINCE = "those that spoke most for the change, the strongest first, with the one that raised the alarm"
NONE = "none is stored any more: they are deleted after {days:g} days, or on request"


class BesideScores(msgspec.Struct, frozen=True):
    """What the stream's auditor left in words beside its scores of one exchange."""

    judge_reasons: str | None = None
    counterpart: Counterpart | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Exchanges on both sides of a change; means are of all audits of a side, in the metric's own unit.

    Times are Unix seconds. What is null or empty has its reason under its name in `reasons`.
    """

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    direction: str | None
    change: float | None
    """When the change began, by the times of the exchanges: an estimate. Where it is not known, the alarm's time."""
    alarm_since: float | None
    alarm_exchange_id: str | None
    """The exchange whose audit raised the alarm."""
    mean_before: float | None
    mean_since: float | None
    n_before: int | None
    n_since: int | None
    chosen_before: str
    """How the exchanges of this side were chosen: they are examples, the means are of all."""
    chosen_since: str
    before: list[list[ShownExchange]]
    """Of each exchange its scores by this metric on this axis."""
    since: list[list[ShownExchange]]
    beside: dict[str, BesideScores]
    """By exchange, of those of which anything is kept."""
    reasons: dict[str, str]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Which comparison is wanted: of a stream, with at most `limit` exchanges a side."""

    stream: str
    limit: int
    excerpt: int | None = None
    """Characters that are kept of each text."""


class ComparisonPage(msgspec.Struct, frozen=True):
    """A comparison, and the ids of the exchanges in it."""

    comparison: Encoded[Comparison]
    ids: list[str]


async def make_comparison(config: Config, wanted: Compared) -> ComparisonPage:
    """Both sides, redacted.

    Raises: NotFoundError for a stream that is none; ConflictError where no alarm of it stands; StoreError.
    """
    return await process.make_page(_comparison, config, wanted)


async def _comparison(database: Database, config: Config, wanted: Compared) -> ComparisonPage:
    found = await streams.load(database, [wanted.stream])
    if not found:
        raise NotFoundError(f'no live stream has the id "{wanted.stream[:100]}": GET /live/alarms lists alarms')
    [stream] = found
    detector = stream.state.detector
    if detector is None or not detector.alarm:
        raise ConflictError(f'no alarm of the stream "{wanted.stream}" stands: GET /live/alarms lists those that do')
    told = shown_detector(stream, settings_of(config.drift), 1)
    change = told.since if told.since is not None else stream.alarm_since
    before, since = await _sides(database, stream, detector.behind, change, wanted.limit)
    rows = await _rows(database, stream, [*before, *since], wanted.excerpt)
    reasons = {name: why for name, why in told.reasons.items() if name in _TOLD}
    days = config.store.retention_days
    sides = {"before": before, "since": since}
    listed = {name: [rows[id_] for id_ in ids if id_ in rows] for name, ids in sides.items()}
    reasons |= {name: NONE.format(days=days) for name, side in listed.items() if not side}
    beside = await _beside(database, stream, list(rows), wanted.excerpt)
    comparison = _compared(stream, told, change, listed, beside, reasons)
    encoded = Encoded[Comparison](msgspec.json.encode(comparison), Comparison)
    return ComparisonPage(encoded, [one for one in (*before, *since) if one in rows])


_TOLD = ("mean_before", "mean_since", "n_before", "n_since", "direction", "axis", "group")


async def _sides(
    database: Database, stream: Stream, behind: list[str], change: float | None, limit: int
) -> tuple[list[str], list[str]]:
    """Ids of stored exchanges before the change and since."""
    strongest = dict.fromkeys([*behind, *filter(None, [stream.alarm_exchange_id])])
    stored = await exchange_search.load(database, strongest)
    since = [one for one in strongest if one in stored]
    if stream.alarm_exchange_id in since[limit:]:
        since[limit - 1 :] = [stream.alarm_exchange_id]
    if change is None:
        return [], since[:limit]
    measured = _measured_stream(stream)
    newest = await exchange_search.of_stream(database, measured, received_from=change, limit=limit)
    since = list(dict.fromkeys([*since, *newest]))[:limit]
    before = await exchange_search.of_stream(database, measured, received_before=change, limit=limit)
    return [one for one in before if one not in since], since


def _measured_stream(stream: Stream) -> str:
    """The stream whose measurements these are: a gap has none of its own, and is shown by those of its group."""
    if not stream.key.metric.endswith(GAP_SUFFIX):
        return stream.id
    own = msgspec.structs.replace(stream.key, metric=stream.key.metric.removesuffix(GAP_SUFFIX))
    return own.id


async def _rows(
    database: Database, stream: Stream, ids: list[str], excerpt: int | None
) -> dict[str, list[ShownExchange]]:
    """By exchange, its scores by the stream's metric on its axis."""
    criteria = Criteria(
        exchange_ids=ids,
        auditor=stream.key.auditor,
        metric=stream.key.metric.removesuffix(GAP_SUFFIX),
        axis=stream.key.axis or None,
    )
    shown = Shown(excerpt)
    rows: dict[str, list[ShownExchange]] = {}
    for row in (await exchange_search.search(database, criteria, limit=len(ids) * MOST_SCORES)).rows:
        rows.setdefault(row.exchange.id, []).append(shown.row(row))
    return rows


async def _beside(database: Database, stream: Stream, ids: list[str], excerpt: int | None) -> dict[str, BesideScores]:
    """Each text cut, so that all of them fit on a page."""
    longest = min(excerpt or MOST_BESIDE, MOST_BESIDE)
    found: dict[str, BesideScores] = {}
    kept = await audit_texts.read(database, ids, auditor=stream.key.auditor)
    stored = await exchange_search.load(database, [id_ for id_ in ids if kept[id_]])
    for one, exchange in stored.items():
        match kept[one].get(stream.key.auditor):
            case Reason() as reason:
                text, _ = shown_reason(reason, longest)
                found[one] = BesideScores(judge_reasons=text)
            case Answers() as answers if (asked := asked_of(exchange)) is not None:
                found[one] = BesideScores(counterpart=shown_counterpart(asked, answers, longest))
    return found


def _compared(
    stream: Stream,
    told: ShownDetector,
    change: float | None,
    sides: dict[str, list[list[ShownExchange]]],
    beside: dict[str, BesideScores],
    reasons: dict[str, str],
) -> Comparison:
    if told.since is None:
        reasons["change"] = "it is not known when it began: what is before the alarm is shown as before the change"
    return Comparison(
        stream=stream.id,
        auditor=told.auditor,
        metric=told.metric,
        axis=told.axis,
        group=told.group,
        model=told.model,
        direction=told.direction,
        change=change,
        alarm_since=told.alarm_since,
        alarm_exchange_id=told.exchange_id,
        mean_before=told.mean_before,
        mean_since=told.mean_since,
        n_before=told.n_before,
        n_since=told.n_since,
        chosen_before=CHOSEN_BEFORE,
        chosen_since=CHOSEN_SINCE,
        before=sides["before"],
        since=sides["since"],
        beside=beside,
        reasons=reasons,
    )
