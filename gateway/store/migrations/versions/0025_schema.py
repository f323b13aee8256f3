"""The schema, as one revision until the first release.

A store of an earlier revision than 0025 was made by unreleased code and is refused. On PostgreSQL, measurements lie in
one partition for each day (ADR 29), and lose their link to a deleted exchange by a trigger of one statement: a foreign
key would do so once for each exchange, in every partition.
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = None
branch_labels = None
depends_on = None

_DAY = 86_400
_DAYS_BEFORE, _DAYS_AHEAD = 2, 7
"""Partitions around the next midnight (UTC); the auditor makes the later ones."""

_UNLINK = (
    """
CREATE FUNCTION unlink_measurements() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE measurements SET exchange_id = NULL WHERE exchange_id = ANY (ARRAY(SELECT id FROM gone));
    RETURN NULL;
END $$
""",
    """
CREATE TRIGGER unlink_measurements AFTER DELETE ON exchanges REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION unlink_measurements()
""",
)


def _measurement_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("exchange_id", sa.String(length=36)),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("auditor_version", sa.String(length=16), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("axis", sa.String(length=32)),
        sa.Column("group_name", sa.String(length=64)),
        sa.Column("reference_name", sa.String(length=64)),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Float()),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("judge", sa.Text()),
        sa.Column("detail", sa.Text()),
        sa.Column("inclusion_probability", sa.Float(), nullable=False),
        sa.Column("rate_factor", sa.Float(), server_default="1", nullable=False),
        sa.Column("weight", sa.Float(), server_default="1", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("stream", sa.String(length=32)),
    ]


def _create_measurements() -> None:
    is_partitioned = op.get_bind().dialect.name == "postgresql"
    if is_partitioned:
        op.create_table(
            "measurements",
            *_measurement_columns(),
            sa.PrimaryKeyConstraint("created_at", "id", name="pk_measurements"),
            postgresql_partition_by="RANGE (created_at)",
        )
        op.create_index("ix_measurements_id", "measurements", ["id"])
        _create_partitions()
        for statement in _UNLINK:
            op.execute(statement)
    else:
        op.create_table(
            "measurements",
            *_measurement_columns(),
            sa.ForeignKeyConstraint(
                ["exchange_id"], ["exchanges.id"], name="fk_measurements_exchange_id", ondelete="SET NULL"
            ),
            sa.PrimaryKeyConstraint("id", name="pk_measurements"),
            sa.UniqueConstraint(
                "exchange_id", "auditor", "metric", "axis", "group_name", "reference_name", name="uq_measurements_one"
            ),
        )
        op.create_index("ix_measurements_created_at", "measurements", ["created_at"])
        op.create_index(
            "ix_measurements_series",
            "measurements",
            ["auditor", "metric", "axis", "group_name", "model", "created_at"],
        )
    op.create_index("ix_measurements_exchange_id", "measurements", ["exchange_id"])
    op.create_index("ix_measurements_history", "measurements", ["stream", "created_at", "id"])


def _create_partitions() -> None:
    op.execute("CREATE TABLE measurements_other PARTITION OF measurements DEFAULT")
    midnight = (int(time.time()) // _DAY + 1) * _DAY
    for start in range(midnight - _DAYS_BEFORE * _DAY, midnight + _DAYS_AHEAD * _DAY, _DAY):
        name = time.strftime("measurements_d%Y%m%d", time.gmtime(start))
        op.execute(f"CREATE TABLE {name} PARTITION OF measurements FOR VALUES FROM ({start}) TO ({start + _DAY})")


def upgrade() -> None:
    op.create_table(
        "access_log",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=False),
        sa.Column("client", sa.String(length=100)),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("n_exchanges", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_access_log"),
    )
    op.create_index("ix_access_log_at", "access_log", ["at"])
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
        "canaries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("plan", sa.Text()),
        sa.Column("findings", sa.Text()),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("finished_at", sa.Float()),
        sa.Column("heartbeat_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_canaries"),
    )
    op.create_index("ix_canaries_status", "canaries", ["status"])
    op.create_table(
        "catalogue",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_catalogue"),
    )
    op.create_table(
        "circuits",
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("server", sa.String(length=100), nullable=False),
        sa.Column("opened_at", sa.Float(), nullable=False),
        sa.Column("probe_at", sa.Float(), nullable=False),
        sa.Column("pause_seconds", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("failed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("auditor", "server", name="pk_circuits"),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("labels", sa.String(length=500), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", name="pk_counters"),
    )
    op.create_table(
        "coverages",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_coverages"),
    )
    op.create_index("ix_coverages_at", "coverages", ["at"])
    op.create_table(
        "exchanges",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("request_id", sa.String(length=200), nullable=False),
        sa.Column("received_at", sa.Float(), nullable=False),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("served_model", sa.String(length=200), nullable=False),
        sa.Column("upstream", sa.String(length=100), nullable=False),
        sa.Column("stream", sa.Boolean(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=False),
        sa.Column("content_type", sa.String(length=200), nullable=False),
        sa.Column("stratum", sa.String(length=64), nullable=False),
        sa.Column("inclusion_probability", sa.Float(), nullable=False),
        sa.Column("rate_factor", sa.Float(), server_default="1", nullable=False),
        sa.Column("key_name", sa.String(length=100)),
        sa.Column("tag", sa.String(length=64)),
        sa.Column("model_label", sa.String(length=200)),
        sa.Column("threshold", sa.Float()),
        sa.Column("mitigation", sa.String(length=64)),
        sa.Column("policy_version", sa.String(length=12)),
        sa.Column("arm", sa.String(length=16)),
        sa.Column("treated_share", sa.Float()),
        sa.Column("instruction", sa.Text()),
        sa.Column("seconds", sa.Float()),
        sa.Column("first_chunk_seconds", sa.Float()),
        sa.Column("sender_rate", sa.Float(), server_default="1"),
        sa.Column("traceparent", sa.String(length=55)),
        sa.Column("system_fingerprint", sa.String(length=100)),
        sa.Column("request_body", sa.LargeBinary()),
        sa.Column("response_body", sa.LargeBinary()),
        sa.Column("is_sealed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("redactions", sa.Text()),
        sa.Column("user_digest", sa.String(length=64)),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("settled_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_exchanges"),
    )
    op.create_index("ix_exchanges_received_at", "exchanges", ["received_at"])
    op.create_index("ix_exchanges_request_id", "exchanges", ["request_id"])
    op.create_index("ix_exchanges_user_digest", "exchanges", ["user_digest"])
    op.create_index("ix_exchanges_waiting", "exchanges", ["state", "received_at"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_facts"),
    )
    op.create_table(
        "ingested",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ingested"),
    )
    op.create_index("ix_ingested_at", "ingested", ["at"])
    op.create_table(
        "ingested_parts",
        sa.Column("exchange_id", sa.String(length=36), nullable=False),
        sa.Column("part", sa.String(length=36), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("is_sealed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("exchange_id", "part", name="pk_ingested_parts"),
    )
    op.create_index("ix_ingested_parts_at", "ingested_parts", ["at"])
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("lock", sa.String(length=200)),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("available_at", sa.Float(), nullable=False),
        sa.Column("lease_owner", sa.String(length=64)),
        sa.Column("lease_until", sa.Float()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_ready", "jobs", ["task", "priority", "id"])
    op.create_table(
        "judge_calibrations",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("judge_model", sa.String(length=200), nullable=False),
        sa.Column("prompt_sha256", sa.String(length=64), nullable=False),
        sa.Column("thinking", sa.String(length=32), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_judge_calibrations"),
    )
    op.create_index("ix_judge_calibrations_judge_model", "judge_calibrations", ["judge_model"])
    op.create_table(
        "labelling_projects",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("form", sa.String(length=16), nullable=False),
        sa.Column("raters_per_task", sa.Integer(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_labelling_projects"),
    )
    op.create_table(
        "ledger",
        sa.Column("stratum", sa.String(length=64), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stratum", "outcome", name="pk_ledger"),
    )
    op.create_table(
        "model_changes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("upstream", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.Column("last_seen_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_model_changes"),
    )
    op.create_index("ix_model_changes_model", "model_changes", ["model"])
    op.create_table(
        "policy_arms",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=12), nullable=False),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("axis", sa.String(length=32), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("instrument", sa.String(length=200), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_policy_arms"),
    )
    op.create_index("ix_policy_arms_policy", "policy_arms", ["policy"])
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("suite", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("protocol", sa.String(length=16), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("progress_done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("progress_total", sa.Integer()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("finished_at", sa.Float()),
        sa.Column("heartbeat_at", sa.Float()),
        sa.Column("error", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("report", sa.Text()),
        sa.Column("claim", sa.String(length=32)),
        sa.Column("led_at", sa.Float()),
        sa.Column("shared", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_model", "runs", ["model"])
    op.create_index("ix_runs_status", "runs", ["status"])
    op.create_index("ix_runs_suite", "runs", ["suite"])
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("cron", sa.String(length=100)),
        sa.Column("every_seconds", sa.Float()),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("next_due_at", sa.Float(), nullable=False),
        sa.Column("last_due_at", sa.Float()),
        sa.Column("last_run_ids", sa.Text(), nullable=False),
        sa.Column("last_error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("name", name="uq_schedules_name"),
    )
    op.create_index("ix_schedules_next_due_at", "schedules", ["next_due_at"])
    op.create_table(
        "served_models",
        sa.Column("upstream", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("upstream", "model", name="pk_served_models"),
    )
    op.create_table(
        "streams",
        sa.Column("key", sa.String(length=500), nullable=False),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("axis", sa.String(length=32), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("instrument", sa.String(length=200), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("alarm_since", sa.Float()),
        sa.Column("alarm_exchange_id", sa.String(length=36)),
        sa.Column("acknowledged_at", sa.Float()),
        sa.Column("log_evidence", sa.Float()),
        sa.Column("estimate", sa.Text()),
        sa.Column("detector", sa.Text()),
        sa.PrimaryKeyConstraint("key", name="pk_streams"),
    )
    op.create_index("ix_streams_alarm_since", "streams", ["alarm_since"])
    op.create_index("ix_streams_axis", "streams", ["axis"])
    op.create_index("ix_streams_model", "streams", ["model"])
    op.create_index("ix_streams_series", "streams", ["auditor", "metric", "axis", "group_name", "model", "instrument"])
    op.create_table(
        "annotations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("exchange_id", sa.String(length=36)),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("axis", sa.String(length=32), nullable=False),
        sa.Column("group_name", sa.String(length=64), nullable=False),
        sa.Column("reference_name", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("annotator", sa.String(length=100), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("measured_value", sa.Float()),
        sa.Column("inclusion_probability", sa.Float()),
        sa.Column("rate_factor", sa.Float(), server_default="1", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("stream", sa.String(length=32)),
        sa.Column("judge", sa.Text()),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_annotations_exchange_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_annotations"),
        sa.UniqueConstraint(
            "exchange_id",
            "auditor",
            "metric",
            "axis",
            "group_name",
            "reference_name",
            "annotator",
            name="uq_annotations_one",
        ),
    )
    op.create_index("ix_annotations_created_at", "annotations", ["created_at"])
    op.create_index("ix_annotations_exchange_id", "annotations", ["exchange_id"])
    op.create_index("ix_annotations_stream", "annotations", ["stream"])
    op.create_table(
        "audit_texts",
        sa.Column("exchange_id", sa.String(length=36), nullable=False),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("is_sealed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_audit_texts_exchange_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("exchange_id", "auditor", name="pk_audit_texts"),
    )
    op.create_table(
        "canary_pairs",
        sa.Column("canary_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["canary_id"], ["canaries.id"], name="fk_canary_pairs_canary_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("canary_id", "number", name="pk_canary_pairs"),
    )
    op.create_table(
        "exchange_audits",
        sa.Column("exchange_id", sa.String(length=36), nullable=False),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("failure_kind", sa.String(length=16)),
        sa.Column("message", sa.Text()),
        sa.Column("seconds", sa.Float()),
        sa.Column("finished_at", sa.Float(), nullable=False),
        sa.Column("send_at", sa.Float()),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_exchange_audits_exchange_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("exchange_id", "auditor", name="pk_exchange_audits"),
    )
    op.create_index("ix_exchange_audits_send_at", "exchange_audits", ["send_at"])
    op.create_table(
        "labelling_tasks",
        sa.Column("project", sa.String(length=100), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("exchange_id", sa.String(length=36)),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_labelling_tasks_exchange_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project"], ["labelling_projects.name"], name="fk_labelling_tasks_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "id", name="pk_labelling_tasks"),
    )
    op.create_index("ix_labelling_tasks_exchange_id", "labelling_tasks", ["exchange_id"])
    _create_measurements()
    op.create_table(
        "rater_links",
        sa.Column("project", sa.String(length=100), nullable=False),
        sa.Column("rater", sa.String(length=100), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float()),
        sa.ForeignKeyConstraint(
            ["project"], ["labelling_projects.name"], name="fk_rater_links_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "rater", name="pk_rater_links"),
    )
    op.create_index("ix_rater_links_digest", "rater_links", ["digest"], unique=True)
    op.create_table(
        "run_prompts",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_prompts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_prompts"),
    )
    op.create_table(
        "run_ranges",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("past", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=32)),
        sa.Column("lease_until", sa.Float()),
        sa.Column("is_asked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_ranges_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "first", name="pk_run_ranges"),
    )
    op.create_table(
        "run_responses",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("item_id", sa.String(length=200), nullable=False),
        sa.Column("sample", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_responses_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "item_id", "sample", name="pk_run_responses"),
    )
    op.create_table(
        "waiting_audits",
        sa.Column("exchange_id", sa.String(length=36), nullable=False),
        sa.Column("auditor", sa.String(length=32), nullable=False),
        sa.Column("server", sa.String(length=100), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("own_failures", sa.Integer(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("failed_at", sa.Float()),
        sa.Column("retry_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["exchange_id"], ["exchanges.id"], name="fk_waiting_audits_exchange_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("exchange_id", "auditor", name="pk_waiting_audits"),
    )
    op.create_index("ix_waiting_audits_auditor_server", "waiting_audits", ["auditor", "server"])
    op.create_table(
        "adjudications",
        sa.Column("project", sa.String(length=100), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("by_whom", sa.String(length=100), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("saved_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project", "task_id"],
            ["labelling_tasks.project", "labelling_tasks.id"],
            name="fk_adjudications_project_task_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "task_id", name="pk_adjudications"),
    )
    op.create_table(
        "task_labels",
        sa.Column("project", sa.String(length=100), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("rater", sa.String(length=100), nullable=False),
        sa.Column("label", sa.Text()),
        sa.Column("revision", sa.Integer(), server_default="0", nullable=False),
        sa.Column("assigned_at", sa.Float(), nullable=False),
        sa.Column("saved_at", sa.Float()),
        sa.ForeignKeyConstraint(
            ["project", "task_id"],
            ["labelling_tasks.project", "labelling_tasks.id"],
            name="fk_task_labels_project_task_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "task_id", "rater", name="pk_task_labels"),
    )
