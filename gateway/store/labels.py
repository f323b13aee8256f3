"""People's labels, joined with the scores of the judge they speak about, by stream."""

from collections.abc import Collection
from typing import Any

import msgspec
import sqlalchemy as sa

from auditors.metrics.weighting import bounded_weight
from auditors.streams.calibration import Pair
from auditors.streams.label_sequence import Draw
from auditors.streams.scales import scaled
from gateway.store.database import Database
from gateway.store.tables import annotations
from gateway.turns import in_turns


async def labelled(database: Database) -> set[str]:
    """The streams that have labelled audits."""
    query = sa.select(annotations.c.stream).where(annotations.c.stream.is_not(None)).distinct()
    return set(await database.fetch_column(query))


async def pairs(database: Database, ids: Collection[str] | None = None) -> dict[str, list[Pair]]:
    """Return the labelled audits of each of these streams (None: all) that has any, in the order of their first labels,
    on the 0..1 scale, weighted as in the stream's mean. Several people's labels of an audit count as their mean. Labels
    outlive their exchanges; then each stands alone.
    """
    columns = annotations.c
    audit = sa.func.coalesce(columns.exchange_id, columns.id)
    query = sa.select(
        columns.stream,
        columns.metric,
        columns.group_name,
        sa.func.avg(columns.value).label("person"),
        sa.func.min(columns.measured_value).label("judge"),
        sa.func.min(columns.inclusion_probability).label("probability"),
        sa.func.min(columns.rate_factor).label("rate_factor"),
        sa.func.min(columns.draw).label("draw"),
        audit.label("audit"),
    ).where(columns.stream.is_not(None), columns.measured_value.is_not(None))
    if ids is not None:
        query = query.where(columns.stream.in_(ids))
    query = query.group_by(columns.stream, columns.metric, columns.group_name, columns.reference_name, audit)
    query = query.order_by(sa.func.min(columns.created_at), audit)
    pairs_by_stream: dict[str, list[Pair]] = {}
    rows = await database.fetch_rows(query)
    for stream, pair in await in_turns(_pair, rows):
        pairs_by_stream.setdefault(stream, []).append(pair)
    return pairs_by_stream


def _pair(row: Any) -> tuple[str, Pair]:
    pair = Pair(
        judge=scaled(row.metric, row.judge),
        person=scaled(row.metric, row.person),
        group=row.group_name,
        weight=bounded_weight(row.probability or 1.0, row.rate_factor),
        cluster=row.audit,
        draw=None if row.draw is None else msgspec.json.decode(row.draw, type=Draw),
    )
    return row.stream, pair
