"""Projects of tasks that people label, their labels, and what was decided where they differ.

Revision 0013, after 0012.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "labelling_projects",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        sa.Column("raters_per_task", sa.Integer, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_labelling_projects"),
    )
    op.create_table(
        "labelling_tasks",
        sa.Column("project", sa.String(100), nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("exchange_id", sa.String(36)),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name="pk_labelling_tasks"),
        sa.ForeignKeyConstraint(
            ["project"],
            ["labelling_projects.name"],
            name="fk_labelling_tasks_project_labelling_projects",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_labelling_tasks_exchange_id_exchanges", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_labelling_tasks_exchange_id", "labelling_tasks", ["exchange_id"])
    op.create_table(
        "task_labels",
        sa.Column("project", sa.String(100), nullable=False),
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("rater", sa.String(100), nullable=False),
        sa.Column("label", sa.Text),
        sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
        sa.Column("assigned_at", sa.Float, nullable=False),
        sa.Column("saved_at", sa.Float),
        sa.PrimaryKeyConstraint("project", "task_id", "rater", name="pk_task_labels"),
        sa.ForeignKeyConstraint(
            ["project", "task_id"],
            ["labelling_tasks.project", "labelling_tasks.id"],
            name="fk_task_labels_project_labelling_tasks",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "adjudications",
        sa.Column("project", sa.String(100), nullable=False),
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("by_whom", sa.String(100), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("saved_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("project", "task_id", name="pk_adjudications"),
        sa.ForeignKeyConstraint(
            ["project", "task_id"],
            ["labelling_tasks.project", "labelling_tasks.id"],
            name="fk_adjudications_project_labelling_tasks",
            ondelete="CASCADE",
        ),
    )
