"""The trace that an exchange belongs to, and which audits have evaluation events to send.

Revision 0017, after 0016.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("traceparent", sa.String(length=55)))
    op.add_column("exchange_audits", sa.Column("send_at", sa.Float()))
    op.create_index("ix_exchange_audits_send_at", "exchange_audits", ["send_at"])
