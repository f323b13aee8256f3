"""Sealed and redacted text, the access log, annotations, schedules, models seen.

Revision 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("is_sealed", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("exchanges", sa.Column("redactions", sa.Text()))
    op.add_column("exchanges", sa.Column("user_digest", sa.String(length=64)))
    op.create_index("ix_exchanges_user_digest", "exchanges", ["user_digest"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_facts"),
    )
    op.create_table(
        "access_log",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=False),
        sa.Column("client", sa.String(length=100)),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("n_exchanges", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_access_log"),
    )
    op.create_index("ix_access_log_at", "access_log", ["at"])
    op.create_table(
        "annotations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("exchange_id", sa.String(length=36)),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("axis", sa.String(length=32), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("reference_name", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("annotator", sa.String(length=100), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("measured_value", sa.Float()),
        sa.Column("inclusion_probability", sa.Float()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_annotations_exchange_id_exchanges", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_annotations"),
        sa.UniqueConstraint(
            *("exchange_id", "auditor", "metric", "axis", "group_name", "reference_name", "annotator"),
            name="uq_annotations_one",
        ),
    )
    op.create_index("ix_annotations_created_at", "annotations", ["created_at"])
    op.create_index("ix_annotations_exchange_id", "annotations", ["exchange_id"])
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("cron", sa.String(length=100)),
        sa.Column("every_seconds", sa.Float()),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("next_due_at", sa.Float(), nullable=False),
        sa.Column("last_due_at", sa.Float()),
        sa.Column("last_run_ids", sa.Text(), nullable=False),
        sa.Column("last_error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("name", name="uq_schedules_name"),
    )
    op.create_index("ix_schedules_next_due_at", "schedules", ["next_due_at"])
    op.create_table(
        "served_models",
        sa.Column("upstream", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("upstream", "model", name="pk_served_models"),
    )
