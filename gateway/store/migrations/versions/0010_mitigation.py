"""Exchanges know the policy that covered them, their arm, and what was added to their request.

Revision 0010, after 0009.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("mitigation", sa.String(64)))
    op.add_column("exchanges", sa.Column("arm", sa.String(16)))
    op.add_column("exchanges", sa.Column("treated_share", sa.Float()))
    op.add_column("exchanges", sa.Column("instruction", sa.Text()))
