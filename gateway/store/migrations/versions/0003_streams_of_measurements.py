"""Measurements and labels name their stream, for windows and corrections; streams tell their evidence.

Revision 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("measurements", sa.Column("stream", sa.String(length=32)))
    op.create_index("ix_measurements_stream", "measurements", ["stream", "id"])
    op.create_index("ix_measurements_created_at", "measurements", ["created_at"])
    op.add_column("annotations", sa.Column("stream", sa.String(length=32)))
    op.create_index("ix_annotations_stream", "annotations", ["stream"])
    op.add_column("streams", sa.Column("log_evidence", sa.Float()))
