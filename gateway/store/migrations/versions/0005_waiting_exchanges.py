"""What waits for an audit is counted, and the oldest of it found, without reading the exchanges themselves.

Revision 0005, after 0004.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_exchanges_waiting", "exchanges", ["state", "received_at"])
    op.drop_index("ix_exchanges_state", "exchanges")
