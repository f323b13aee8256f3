"""Calibrations of judges; which judge an annotation speaks about.

Revision 0014, after 0013.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("annotations", sa.Column("judge", sa.Text))
    op.create_table(
        "judge_calibrations",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("judge_model", sa.String(200), nullable=False),
        sa.Column("prompt_sha256", sa.String(64), nullable=False),
        sa.Column("thinking", sa.String(32), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_judge_calibrations"),
    )
    op.create_index("ix_judge_calibrations_judge_model", "judge_calibrations", ["judge_model"])
