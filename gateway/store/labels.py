"""People's labels beside the scores of the judge they speak about, by stream."""

import sqlalchemy as sa

from auditors.streams.calibration import Pair
from auditors.streams.scales import scaled
from gateway.store.database import Database
from gateway.store.tables import annotations


async def pairs(database: Database) -> dict[str, list[Pair]]:
    """The labelled audits of each stream that has any, on the 0..1 scale, each weighted as it was sampled.

    Several people's labels of one audit count as their mean. Labels outlive their exchanges; then each stands alone.
    """
    columns = annotations.c
    query = sa.select(
        columns.stream,
        columns.metric,
        columns.group_name,
        sa.func.avg(columns.value).label("person"),
        sa.func.min(columns.measured_value).label("judge"),
        sa.func.min(columns.inclusion_probability).label("probability"),
    ).where(columns.stream.is_not(None), columns.measured_value.is_not(None))
    audit = sa.func.coalesce(columns.exchange_id, columns.id)
    query = query.group_by(columns.stream, columns.metric, columns.group_name, columns.reference_name, audit)
    found: dict[str, list[Pair]] = {}
    async with database.read() as connection:
        for row in await connection.execute(query):
            pair = Pair(
                judge=scaled(row.metric, row.judge),
                person=scaled(row.metric, row.person),
                group=row.group_name,
                weight=1.0 / (row.probability or 1.0),
            )
            found.setdefault(row.stream, []).append(pair)
    return found
