"""Exchanges know the threshold of their application, and measurements what they count in a mean.

Revision 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("threshold", sa.Float()))
    op.add_column("measurements", sa.Column("weight", sa.Float(), nullable=False, server_default="1"))
