"""Exchanges that others recorded: which have come, parts of those that are not whole yet, and their senders' rates.

Revision 0016, after 0015.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("sender_rate", sa.Float(), server_default="1"))
    op.create_table(
        "ingested",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("ix_ingested_at", "ingested", ["at"])
    op.create_table(
        "ingested_parts",
        sa.Column("exchange_id", sa.String(36), nullable=False),
        sa.Column("part", sa.String(36), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("is_sealed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("exchange_id", "part", name="pk_ingested_parts"),
    )
    op.create_index("ix_ingested_parts_at", "ingested_parts", ["at"])
