"""What is shown of a stream is kept as it is shown; acknowledgements and changes of models are on record.

Revision 0007, after 0006. Whoever changes what is shown sets `estimate` and `detector` to NULL: the auditor writes them
anew. What a model was last seen to be is the first entry of its record.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("streams", sa.Column("estimate", sa.Text()))
    op.add_column("streams", sa.Column("detector", sa.Text()))
    op.create_index("ix_streams_series", "streams", ["auditor", "metric", "axis", "group_name", "model", "instrument"])
    op.create_index("ix_streams_model", "streams", ["model"])
    op.create_index("ix_streams_axis", "streams", ["axis"])
    op.create_index("ix_streams_alarm_since", "streams", ["alarm_since"])
    op.create_table(
        "acknowledgements",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("by_whom", sa.String(length=100), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("accept_new_level", sa.Boolean(), nullable=False),
        sa.Column("client", sa.String(length=100)),
        sa.Column("alarm_since", sa.Float()),
        sa.Column("direction", sa.String(length=16)),
        sa.PrimaryKeyConstraint("id", name="pk_acknowledgements"),
    )
    op.create_index("ix_acknowledgements_stream", "acknowledgements", ["stream"])
    op.create_table(
        "model_changes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("upstream", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_model_changes"),
    )
    op.create_index("ix_model_changes_model", "model_changes", ["model"])
    op.execute(
        "INSERT INTO model_changes (upstream, model, fingerprint, seen_at) "
        "SELECT upstream, model, fingerprint, changed_at FROM served_models"
    )
