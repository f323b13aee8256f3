"""Links of raters: which project and name each opens, by the digest of its token.

Revision 0025, after 0024. An older version does not know the table and leaves it alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rater_links",
        sa.Column("project", sa.String(100), nullable=False),
        sa.Column("rater", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.ForeignKeyConstraint(
            ["project"],
            ["labelling_projects.name"],
            name="fk_rater_links_project_labelling_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "rater", name="pk_rater_links"),
    )
    op.create_index("ix_rater_links_digest", "rater_links", ["digest"], unique=True)
