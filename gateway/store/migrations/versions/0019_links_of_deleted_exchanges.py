"""On PostgreSQL, measurements lose their link to exchanges that are deleted by a trigger of one statement.

A foreign key would do so once for each exchange, in every partition of 0020. Revision 0019, after 0018. Its lock on
exchanges is let go before the next revision begins: see `gateway.store.schema`.
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_FUNCTION = """
CREATE FUNCTION unlink_measurements() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE measurements SET exchange_id = NULL WHERE exchange_id = ANY (ARRAY(SELECT id FROM gone));
    RETURN NULL;
END $$
"""
_TRIGGER = """
CREATE TRIGGER unlink_measurements AFTER DELETE ON exchanges REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION unlink_measurements()
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_FUNCTION)
        op.execute(_TRIGGER)
