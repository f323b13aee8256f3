"""How long the answer of an exchange took, and its first chunk.

Revision 0015, after 0014.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("seconds", "first_chunk_seconds"):
        op.add_column("exchanges", sa.Column(name, sa.Float()))
