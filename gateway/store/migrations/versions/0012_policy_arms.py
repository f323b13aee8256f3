"""What auditors found in the two arms of a policy.

Revision 0012, after 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("policy_version", sa.String(12)))
    op.create_table(
        "policy_arms",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("version", sa.String(12), nullable=False),
        sa.Column("auditor", sa.String(32), nullable=False),
        sa.Column("metric", sa.String(64), nullable=False),
        sa.Column("axis", sa.String(32), nullable=False),
        sa.Column("group_name", sa.String(64), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("instrument", sa.String(200), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
    )
    op.create_index("ix_policy_arms_policy", "policy_arms", ["policy"])
