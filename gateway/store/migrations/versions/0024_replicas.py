"""Which of several servers behind one address answered.

Revision 0024, after 0023.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("system_fingerprint", sa.String(length=100)))
    op.add_column("model_changes", sa.Column("last_seen_at", sa.Float()))
