"""The text of a file of own prompts, apart from the options of its run, which are read with every list of runs.

Revision 0022, after 0021. An older version does not know such runs and leaves the table alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_prompts",
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_prompts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_prompts"),
    )
