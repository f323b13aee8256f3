"""What an audit left in words beside its numbers: a judge's reason, the answers about both groups.

Revision 0018, after 0017.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_texts",
        sa.Column("exchange_id", sa.String(36), nullable=False),
        sa.Column("auditor", sa.String(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("is_sealed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("exchange_id", "auditor", name="pk_audit_texts"),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_audit_texts_exchange_id", ondelete="CASCADE"
        ),
    )
