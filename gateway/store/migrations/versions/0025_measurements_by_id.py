"""An export reads PostgreSQL's measurements by id, across their days. SQLite's lie in that order.

Whoever writes while it is built waits. Revision 0025, after 0024.
"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("ix_measurements_id", "measurements", ["id"])
