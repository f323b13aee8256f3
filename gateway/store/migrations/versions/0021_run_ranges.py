"""Ranges of a suite run that several auditors ask at once, and which auditor's run it is.

Revision 0021, after 0020.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("claim", sa.String(length=32)))
    op.add_column("runs", sa.Column("led_at", sa.Float()))
    op.add_column("runs", sa.Column("shared", sa.Text()))
    op.create_table(
        "run_ranges",
        sa.Column("run_id", sa.String(length=36), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("first", sa.Integer(), primary_key=True),
        sa.Column("past", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=32)),
        sa.Column("lease_until", sa.Float()),
        sa.Column("is_asked", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
