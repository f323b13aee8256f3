"""Measurements of a stream are found by their time and, on PostgreSQL, lie in one partition for each day.

What there is becomes the first partition as it lies, up to the next midnight (UTC). Who writes meanwhile, an earlier
version as well, waits and then writes by the same name into the partitions. Revision 0020, after 0019.
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_DAY = 86_400
_AHEAD = 7

_INDEXED_BEFORE = (
    "CREATE UNIQUE INDEX pk_measurements_before ON measurements (created_at, id)",
    "CREATE INDEX ix_measurements_before_history ON measurements (stream, created_at, id)",
    "CREATE INDEX ix_measurements_before_id ON measurements (id)",
)
_RENAMED = (
    "LOCK TABLE measurements IN ACCESS EXCLUSIVE MODE",
    "ALTER TABLE measurements RENAME TO measurements_before",
    "ALTER TABLE measurements_before DROP CONSTRAINT pk_measurements, DROP CONSTRAINT uq_measurements_one",
    "DROP INDEX ix_measurements_series, ix_measurements_stream, ix_measurements_created_at",
    "ALTER INDEX ix_measurements_exchange_id RENAME TO ix_measurements_before_exchange_id",
    "ALTER TABLE measurements_before ADD CONSTRAINT pk_measurements_before PRIMARY KEY USING INDEX "
    "pk_measurements_before",
)
_PARTITIONED = (
    "CREATE TABLE measurements (LIKE measurements_before INCLUDING DEFAULTS) PARTITION BY RANGE (created_at)",
    "ALTER TABLE measurements ADD CONSTRAINT pk_measurements PRIMARY KEY (created_at, id)",
    "CREATE INDEX ix_measurements_history ON measurements (stream, created_at, id)",
    "CREATE INDEX ix_measurements_exchange_id ON measurements (exchange_id)",
    "CREATE INDEX ix_measurements_id ON measurements (id)",
    "ALTER SEQUENCE measurements_id_seq OWNED BY measurements.id",
    "CREATE TABLE measurements_other PARTITION OF measurements DEFAULT",
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        op.create_index("ix_measurements_history", "measurements", ["stream", "created_at", "id"])
        op.drop_index("ix_measurements_stream", "measurements")
        return
    for statement in (*_INDEXED_BEFORE, *_RENAMED, *_PARTITIONED):
        op.execute(statement)
    is_empty = connection.execute(sa.text("SELECT id FROM measurements_before LIMIT 1")).first() is None
    midnight = (int(time.time()) // _DAY + 1) * _DAY
    first = midnight - 2 * _DAY if is_empty else midnight
    for start in range(first, midnight + _AHEAD * _DAY, _DAY):
        name = time.strftime("measurements_d%Y%m%d", time.gmtime(start))
        op.execute(f"CREATE TABLE {name} PARTITION OF measurements FOR VALUES FROM ({start}) TO ({start + _DAY})")
    if is_empty:
        op.execute("DROP TABLE measurements_before")
        return
    op.execute(  # of a clock that is ahead
        f"WITH moved AS (DELETE FROM measurements_before WHERE created_at >= {midnight} RETURNING *) "  # noqa: S608 - a number of our own
        "INSERT INTO measurements SELECT * FROM moved"
    )
    attach = "ALTER TABLE measurements ATTACH PARTITION measurements_before FOR VALUES FROM (MINVALUE)"
    op.execute(f"{attach} TO ({midnight})")
