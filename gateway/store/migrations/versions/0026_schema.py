"""The schema, as a single revision until the first release; earlier ones are refused. The first change of a table after
it needs a second revision, and a copy of gateway.store.tables here. On PostgreSQL, measurements lie in a partition for
each day (ADR 29); a trigger of a statement unlinks them, as a foreign key would act for each exchange.
"""

import time

from alembic import op
from sqlalchemy.schema import CreateTable

from gateway.store.tables import metadata

revision = "0026"
down_revision = None
branch_labels = None
depends_on = None

_DAY = 86_400
_DAYS_BEFORE, _DAYS_AHEAD = 2, 7
"""Partitions around the next midnight (UTC); the auditor makes the later ones."""

_UNLINK = (
    """
CREATE FUNCTION unlink_measurements() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE measurements SET exchange_id = NULL WHERE exchange_id = ANY (ARRAY(SELECT id FROM gone));
    RETURN NULL;
END $$
""",
    """
CREATE TRIGGER unlink_measurements AFTER DELETE ON exchanges REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION unlink_measurements()
""",
)


def upgrade() -> None:
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            index.create(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        op.create_primary_key("pk_measurements", "measurements", ["created_at", "id"])
        op.create_index("ix_measurements_id", "measurements", ["id"])
        op.execute("CREATE TABLE measurements_other PARTITION OF measurements DEFAULT")
        midnight = (int(time.time()) // _DAY + 1) * _DAY
        for start in range(midnight - _DAYS_BEFORE * _DAY, midnight + _DAYS_AHEAD * _DAY, _DAY):
            name = time.strftime("measurements_d%Y%m%d", time.gmtime(start))
            op.execute(f"CREATE TABLE {name} PARTITION OF measurements FOR VALUES FROM ({start}) TO ({start + _DAY})")
        for statement in _UNLINK:
            op.execute(statement)
