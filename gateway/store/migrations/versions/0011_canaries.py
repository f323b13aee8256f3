"""Canaries: two models compared on replayed exchanges, and every pair of answers as numbers.

Revision 0011, after 0010.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "canaries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("plan", sa.Text()),
        sa.Column("findings", sa.Text()),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("finished_at", sa.Float()),
        sa.Column("heartbeat_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_canaries"),
    )
    op.create_index("ix_canaries_status", "canaries", ["status"])
    op.create_table(
        "canary_pairs",
        sa.Column("canary_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["canary_id"], ["canaries.id"], name="fk_canary_pairs_canary_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("canary_id", "number", name="pk_canary_pairs"),
    )
