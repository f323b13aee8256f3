"""Open circuits of sick judges and embedders, and the audits that wait for them.

Revision 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "circuits",
        sa.Column("auditor", sa.String(32), nullable=False),
        sa.Column("server", sa.String(100), nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("probe_at", sa.Float, nullable=False),
        sa.Column("pause_seconds", sa.Float, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("failed_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("auditor", "server", name="pk_circuits"),
    )
    op.create_table(
        "waiting_audits",
        sa.Column("exchange_id", sa.String(36), nullable=False),
        sa.Column("auditor", sa.String(32), nullable=False),
        sa.Column("server", sa.String(100), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("own_failures", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("failed_at", sa.Float),
        sa.Column("retry_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("exchange_id", "auditor", name="pk_waiting_audits"),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_waiting_audits_exchange_id_exchanges", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_waiting_audits_auditor_server", "waiting_audits", ["auditor", "server"])
