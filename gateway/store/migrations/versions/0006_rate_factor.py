"""Exchanges, measurements and annotations know how far the rates of their moment were lowered.

Revision 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("exchanges", "measurements", "annotations"):
        op.add_column(table, sa.Column("rate_factor", sa.Float(), nullable=False, server_default="1"))
