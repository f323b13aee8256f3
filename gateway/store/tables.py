"""Every table. Times are Unix seconds, structured values JSON text. The states, not the queue, say what is to do."""

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def _table(name: str, *parts: SchemaItem, postgresql_partition_by: str | None = None) -> sa.Table:
    return sa.Table(name, metadata, *parts, postgresql_partition_by=postgresql_partition_by)


exchanges = _table(
    "exchanges",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("request_id", sa.String(200), nullable=False, index=True),
    sa.Column("received_at", sa.Float, nullable=False, index=True),
    sa.Column("endpoint", sa.String(64), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("served_model", sa.String(200), nullable=False),
    sa.Column("upstream", sa.String(100), nullable=False),
    sa.Column("stream", sa.Boolean, nullable=False),
    sa.Column("status_code", sa.Integer, nullable=False),
    sa.Column("content_type", sa.String(200), nullable=False),
    sa.Column("stratum", sa.String(64), nullable=False),
    sa.Column("inclusion_probability", sa.Float, nullable=False),
    sa.Column("rate_factor", sa.Float, nullable=False, server_default="1"),  # see auditors.types.Exchange
    sa.Column("key_name", sa.String(100)),
    sa.Column("tag", sa.String(64)),
    sa.Column("model_label", sa.String(200)),  # see auditors.types.Exchange
    sa.Column("threshold", sa.Float),  # see auditors.types.Exchange
    sa.Column("mitigation", sa.String(64)),  # name of the policy that covered it
    sa.Column("policy_version", sa.String(12)),  # digest of what that policy says
    sa.Column("arm", sa.String(16)),  # treated | control, where a policy covered it
    sa.Column("treated_share", sa.Float),  # probability of the treated arm
    sa.Column("instruction", sa.Text),  # see auditors.types.Exchange
    sa.Column("seconds", sa.Float),  # see auditors.types.Exchange
    sa.Column("first_chunk_seconds", sa.Float),  # see auditors.types.Exchange
    sa.Column("sender_rate", sa.Float, server_default="1"),  # see auditors.types.Exchange
    sa.Column("traceparent", sa.String(55)),  # see auditors.types.Exchange
    sa.Column("system_fingerprint", sa.String(100)),  # see auditors.types.Exchange
    sa.Column("request_body", sa.LargeBinary),
    sa.Column("response_body", sa.LargeBinary),
    sa.Column("is_sealed", sa.Boolean, nullable=False, server_default=sa.false()),  # bodies are encrypted
    sa.Column("redactions", sa.Text),  # JSON: kind to how many places of the bodies were replaced
    sa.Column("user_digest", sa.String(64), index=True),  # see gateway.privacy.texts.user_digest
    sa.Column("state", sa.String(16), nullable=False),  # see gateway.store.exchanges.State
    sa.Column("settled_at", sa.Float),
    sa.Index("ix_exchanges_waiting", "state", "received_at"),
)

ingested = _table(  # every exchange that was sent to us, sampled or not, so that none counts twice
    "ingested",
    sa.Column("id", sa.String(36), primary_key=True),  # ingest.received.exchange_id
    sa.Column("at", sa.Float, nullable=False, index=True),
)

ingested_parts = _table(  # part of an exchange whose other parts have not come yet
    "ingested_parts",
    sa.Column("exchange_id", sa.String(36), primary_key=True),
    sa.Column("part", sa.String(36), primary_key=True),  # digest of what it says: a repetition is no other part
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("body", sa.LargeBinary, nullable=False),  # JSON of ingest.received.Part, redacted and sealed
    sa.Column("is_sealed", sa.Boolean, nullable=False),
)

exchange_audits = _table(  # one row once an auditor is done with an exchange: the guard against doing it twice
    "exchange_audits",
    sa.Column("exchange_id", sa.String(36), sa.ForeignKey("exchanges.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("auditor", sa.String(32), primary_key=True),
    sa.Column("outcome", sa.String(16), nullable=False),  # audited | not_auditable | failed
    sa.Column("failure_kind", sa.String(16)),
    sa.Column("message", sa.Text),
    sa.Column("seconds", sa.Float),
    sa.Column("finished_at", sa.Float, nullable=False),
    sa.Column("send_at", sa.Float, index=True),  # from when on its evaluation events are sent; none once they are
)

audit_texts = _table(  # what an audit left in words beside its numbers; gone with its exchange
    "audit_texts",
    sa.Column("exchange_id", sa.String(36), sa.ForeignKey("exchanges.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("auditor", sa.String(32), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),  # JSON of auditors.audit_texts.AuditText, redacted and sealed
    sa.Column("is_sealed", sa.Boolean, nullable=False),
)

circuits = _table(  # a server that an auditor asks and that is sick; a closed circuit has no row
    "circuits",
    sa.Column("auditor", sa.String(32), primary_key=True),
    sa.Column("server", sa.String(100), primary_key=True),  # an upstream, or "auditors.NAME"
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("probe_at", sa.Float, nullable=False),
    sa.Column("pause_seconds", sa.Float, nullable=False),
    sa.Column("error", sa.Text, nullable=False),  # in our own words
    sa.Column("failed_at", sa.Float, nullable=False),
)

waiting_audits = _table(  # an audit that a server failed, or that its open circuit holds up; its exchange is queued
    "waiting_audits",
    sa.Column("exchange_id", sa.String(36), sa.ForeignKey("exchanges.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("auditor", sa.String(32), primary_key=True),
    sa.Column("server", sa.String(100), nullable=False),
    sa.Column("error", sa.Text, nullable=False),  # in our own words
    sa.Column("own_failures", sa.Integer, nullable=False),
    sa.Column("since", sa.Float, nullable=False),
    sa.Column("failed_at", sa.Float),
    sa.Column("retry_at", sa.Float, nullable=False),
    sa.Index("ix_waiting_audits_auditor_server", "auditor", "server"),
)

measurements = _table(  # on PostgreSQL by day, and with other keys: no key there can do without the day
    "measurements",
    sa.Column("id", sa.Integer, autoincrement=True),
    sa.Column("exchange_id", sa.String(36), index=True),
    sa.Column("auditor", sa.String(32), nullable=False),
    sa.Column("auditor_version", sa.String(16), nullable=False),
    sa.Column("metric", sa.String(64), nullable=False),
    sa.Column("axis", sa.String(32)),
    sa.Column("group_name", sa.String(64)),
    sa.Column("reference_name", sa.String(64)),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("value", sa.Float),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("judge", sa.Text),
    sa.Column("detail", sa.Text),
    sa.Column("inclusion_probability", sa.Float, nullable=False),
    sa.Column("rate_factor", sa.Float, nullable=False, server_default="1"),  # of its exchange
    sa.Column("weight", sa.Float, nullable=False, server_default="1"),  # see auditors.types.Measurement
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("stream", sa.String(32)),  # key of the stream it moved; none for a metric that has no streams
    sa.PrimaryKeyConstraint("id").ddl_if(dialect="sqlite"),  # on PostgreSQL ("created_at", "id")
    sa.ForeignKeyConstraint(  # on PostgreSQL a trigger unlinks measurements, once for all exchanges of a statement
        ["exchange_id"], ["exchanges.id"], ondelete="SET NULL"
    ).ddl_if(dialect="sqlite"),
    sa.UniqueConstraint(  # on PostgreSQL exchange_audits is the guard
        "exchange_id", "auditor", "metric", "axis", "group_name", "reference_name", name="uq_measurements_one"
    ).ddl_if(dialect="sqlite"),
    sa.Index("ix_measurements_series", "auditor", "metric", "axis", "group_name", "model", "created_at").ddl_if(
        dialect="sqlite"
    ),
    sa.Index("ix_measurements_history", "stream", "created_at", "id"),
    sa.Index("ix_measurements_created_at", "created_at").ddl_if(dialect="sqlite"),  # begins the key on PostgreSQL
    postgresql_partition_by="RANGE (created_at)",
)

streams = _table(  # running sums and detector of one live series; updated in the measurement's own transaction
    "streams",
    sa.Column("key", sa.String(500), primary_key=True),
    sa.Column("auditor", sa.String(32), nullable=False),
    sa.Column("metric", sa.String(64), nullable=False),
    sa.Column("axis", sa.String(32), nullable=False),
    sa.Column("group_name", sa.String(64), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("instrument", sa.String(200), nullable=False),  # auditor version, judge and prompt, or embedder
    sa.Column("state", sa.Text, nullable=False),  # JSON of auditors.streams.state.StreamState
    sa.Column("updated_at", sa.Float, nullable=False),
    sa.Column("alarm_since", sa.Float),
    sa.Column("alarm_exchange_id", sa.String(36)),
    sa.Column("acknowledged_at", sa.Float),
    sa.Column("log_evidence", sa.Float),  # of its detector, while no alarm stands
    sa.Column("estimate", sa.Text),  # JSON of gateway.streams.estimates.LiveEstimate; none until it moves, see 0006
    sa.Column("detector", sa.Text),  # JSON of gateway.streams.detectors.ShownDetector
    sa.Index("ix_streams_series", "auditor", "metric", "axis", "group_name", "model", "instrument"),
    sa.Index("ix_streams_model", "model"),
    sa.Index("ix_streams_axis", "axis"),
    sa.Index("ix_streams_alarm_since", "alarm_since"),
)

policy_arms = _table(  # a metric of a group in the two arms of one version of a policy
    "policy_arms",
    sa.Column("id", sa.String(32), primary_key=True),  # digest of the eight columns that follow
    sa.Column("policy", sa.String(64), nullable=False),
    sa.Column("version", sa.String(12), nullable=False),
    sa.Column("auditor", sa.String(32), nullable=False),
    sa.Column("metric", sa.String(64), nullable=False),
    sa.Column("axis", sa.String(32), nullable=False),
    sa.Column("group_name", sa.String(64), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("instrument", sa.String(200), nullable=False),  # as of streams
    sa.Column("state", sa.Text, nullable=False),  # JSON of gateway.features.mitigation.arms.ArmsState
    sa.Column("since", sa.Float, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
    sa.Index("ix_policy_arms_policy", "policy"),
)

acknowledgements = _table(  # who lowered which alarm, and why
    "acknowledgements",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("stream", sa.String(32), nullable=False, index=True),
    sa.Column("by_whom", sa.String(100), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("accept_new_level", sa.Boolean, nullable=False),
    sa.Column("client", sa.String(100)),
    sa.Column("alarm_since", sa.Float),
    sa.Column("direction", sa.String(16)),  # rising | falling
)

model_changes = _table(  # each fingerprint that an upstream was seen to serve under a model's name, since when
    "model_changes",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("upstream", sa.String(100), nullable=False),
    sa.Column("model", sa.String(200), nullable=False, index=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("seen_at", sa.Float, nullable=False),
    sa.Column("last_seen_at", sa.Float),  # while it came and went with others (gateway.store.served.observe)
)

ledger = _table(  # each request counted once: settling an exchange moves it from "queued" to its end
    "ledger",
    sa.Column("stratum", sa.String(64), primary_key=True),
    sa.Column("outcome", sa.String(16), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
)

counters = _table(  # the auditors' Prometheus counters, so that a restart or a kill loses no count
    "counters",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("labels", sa.String(500), primary_key=True),  # JSON list of label values
    sa.Column("value", sa.Float, nullable=False),
)

runs = _table(
    "runs",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("suite", sa.String(64), nullable=False, index=True),
    sa.Column("model", sa.String(200), nullable=False, index=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("protocol", sa.String(16), nullable=False),
    sa.Column("options", sa.Text, nullable=False),  # JSON of benchmarks.run.runner.RunOptions
    sa.Column("status", sa.String(16), nullable=False, index=True),  # queued | running | done | failed | cancelled
    sa.Column("progress_done", sa.Integer, nullable=False, server_default="0"),
    sa.Column("progress_total", sa.Integer),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("finished_at", sa.Float),
    sa.Column("heartbeat_at", sa.Float),
    sa.Column("error", sa.Text),
    sa.Column("result", sa.Text),
    sa.Column("report", sa.Text),
    sa.Column("claim", sa.String(32)),  # whose it is, while it runs: another claim ends the rights of this one
    sa.Column("led_at", sa.Float),  # heartbeat_at, as long as an auditor has it that knows of ranges
    sa.Column("shared", sa.Text),  # JSON of benchmarks.run.share.Terms, complete as soon as the run has ranges
)

run_ranges = _table(  # a range of the items of a run that several auditors ask; no row, nothing to do
    "run_ranges",
    sa.Column("run_id", sa.String(36), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("first", sa.Integer, primary_key=True),  # rows of the plan: from here
    sa.Column("past", sa.Integer, nullable=False),  # to before here
    sa.Column("owner", sa.String(32)),
    sa.Column("lease_until", sa.Float),  # by the database's clock
    sa.Column("is_asked", sa.Boolean, nullable=False, server_default=sa.false()),  # by another than the run's auditor
)

run_responses = _table(
    "run_responses",
    sa.Column("run_id", sa.String(36), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("item_id", sa.String(200), primary_key=True),
    sa.Column("sample", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

run_prompts = _table(  # apart from the options, which every list of runs reads
    "run_prompts",
    sa.Column("run_id", sa.String(36), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("content", sa.Text, nullable=False),  # a file of own prompts (auditors.text.own_prompts)
)

jobs = _table(  # the embedded queue (SQLite); PostgreSQL uses procrastinate's own tables
    "jobs",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("task", sa.String(64), nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("lock", sa.String(200)),  # at most one waiting job with the same lock
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("available_at", sa.Float, nullable=False),
    sa.Column("lease_owner", sa.String(64)),
    sa.Column("lease_until", sa.Float),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Index("ix_jobs_ready", "task", "priority", "id"),
)

catalogue = _table(  # what the auditor can run and which data it has, so that the gateway need not import it
    "catalogue",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)

facts = _table(  # what a store knows about itself; see gateway.store.store_metadata
    "facts",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

access_log = _table(  # who looked at or deleted which exchanges; no text
    "access_log",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("who", sa.String(100), nullable=False),  # name of the key
    sa.Column("client", sa.String(100)),
    sa.Column("action", sa.String(16), nullable=False),  # read | delete
    sa.Column("filter", sa.Text, nullable=False),  # JSON object
    sa.Column("n_exchanges", sa.Integer, nullable=False),
)

annotations = _table(  # a person's score of what an auditor scored; "" where an axis, group or reference is none
    "annotations",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("exchange_id", sa.String(36), index=True),
    sa.Column("auditor", sa.String(32), nullable=False),
    sa.Column("metric", sa.String(64), nullable=False),
    sa.Column("axis", sa.String(32), nullable=False),
    sa.Column("group_name", sa.String(64), nullable=False),
    sa.Column("reference_name", sa.String(64), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("annotator", sa.String(100), nullable=False),
    sa.Column("note", sa.Text),
    sa.Column("measured_value", sa.Float),  # what the auditor had given, kept when the exchange is deleted
    sa.Column("inclusion_probability", sa.Float),
    sa.Column("rate_factor", sa.Float, nullable=False, server_default="1"),  # of its exchange
    sa.Column("created_at", sa.Float, nullable=False, index=True),
    sa.Column("stream", sa.String(32), index=True),  # key of the stream whose judge it is compared with
    sa.Column("judge", sa.Text),  # JSON of that judge's auditors.types.JudgeStamp
    sa.Column("draw", sa.Text),  # JSON of auditors.streams.label_sequence.Draw, of a label of a project
    sa.ForeignKeyConstraint(["exchange_id"], ["exchanges.id"], ondelete="SET NULL"),
    sa.UniqueConstraint(
        *("exchange_id", "auditor", "metric", "axis", "group_name", "reference_name", "annotator"),
        name="uq_annotations_one",
    ),
)

judge_calibrations = _table(  # comparisons of judges with people; rows are added and never changed
    "judge_calibrations",
    sa.Column("digest", sa.String(64), primary_key=True),  # sha256 of the content
    sa.Column("judge_model", sa.String(200), nullable=False, index=True),
    sa.Column("prompt_sha256", sa.String(64), nullable=False),
    sa.Column("thinking", sa.String(32), nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # JSON of benchmarks.run.judge.Validation, as it was written
    sa.Column("created_at", sa.Float, nullable=False),
)

coverages = _table(  # what no suite covered, at one time: numbers and ids of exchanges, no text
    "coverages",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),  # JSON of coverage.figures.Coverage
)

labelling_projects = _table(  # what people are asked to label, and how many of them each task
    "labelling_projects",
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("form", sa.String(16), nullable=False),  # auditors.labelling.forms.FormName
    sa.Column("raters_per_task", sa.Integer, nullable=False),
    sa.Column("about", sa.Text, nullable=False),  # JSON: what its tasks were drawn from
    sa.Column("created_at", sa.Float, nullable=False),
)

labelling_tasks = _table(
    "labelling_tasks",
    sa.Column("project", sa.String(100), primary_key=True),
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),  # in random order
    sa.Column("exchange_id", sa.String(36), index=True),
    sa.Column("shown", sa.Text, nullable=False),  # JSON of what raters see; a live exchange is read where it lies
    sa.Column("origin", sa.Text, nullable=False),  # JSON of auditors.labelling.tasks.Origin, which raters never see
    sa.ForeignKeyConstraint(["exchange_id"], ["exchanges.id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["project"], ["labelling_projects.name"], ondelete="CASCADE"),
)

task_labels = _table(  # one row a rater and task: assigned first (revision 0), then labelled
    "task_labels",
    sa.Column("project", sa.String(100), primary_key=True),
    sa.Column("task_id", sa.String(36), primary_key=True),
    sa.Column("rater", sa.String(100), primary_key=True),
    sa.Column("label", sa.Text),  # JSON of the filled-in form
    sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
    sa.Column("assigned_at", sa.Float, nullable=False),
    sa.Column("saved_at", sa.Float),
    sa.ForeignKeyConstraint(
        ["project", "task_id"], ["labelling_tasks.project", "labelling_tasks.id"], ondelete="CASCADE"
    ),
)

rater_links = _table(  # the link of a rater, by the digest of its token
    "rater_links",
    sa.Column(
        "project", sa.String(100), sa.ForeignKey("labelling_projects.name", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("rater", sa.String(100), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, index=True, unique=True),  # hex SHA-256
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("expires_at", sa.Float),
)

adjudications = _table(  # the last word on a task about which raters differ
    "adjudications",
    sa.Column("project", sa.String(100), primary_key=True),
    sa.Column("task_id", sa.String(36), primary_key=True),
    sa.Column("by_whom", sa.String(100), nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("saved_at", sa.Float, nullable=False),
    sa.ForeignKeyConstraint(
        ["project", "task_id"], ["labelling_tasks.project", "labelling_tasks.id"], ondelete="CASCADE"
    ),
)

schedules = _table(
    "schedules",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(100), nullable=False, unique=True),
    sa.Column("source", sa.String(16), nullable=False),  # api | config
    sa.Column("cron", sa.String(100)),
    sa.Column("every_seconds", sa.Float),
    sa.Column("request", sa.Text, nullable=False),  # JSON of gateway.config.audit_request.AuditRequest
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("next_due_at", sa.Float, nullable=False, index=True),
    sa.Column("last_due_at", sa.Float),
    sa.Column("last_run_ids", sa.Text, nullable=False),  # JSON list
    sa.Column("last_error", sa.Text),  # why the last due time came to nothing
)

served_models = _table(  # what each upstream was last seen to serve, so that a change is noticed once
    "served_models",
    sa.Column("upstream", sa.String(100), primary_key=True),
    sa.Column("model", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("changed_at", sa.Float, nullable=False),
)

canaries = _table(  # two models compared on replayed exchanges, and the verdict
    "canaries",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("request", sa.Text, nullable=False),  # JSON of canary.request.CanaryRequest
    sa.Column("status", sa.String(16), nullable=False, index=True),  # queued | running | done
    sa.Column("verdict", sa.String(16), nullable=False),  # undecided | promote | hold | rollback
    sa.Column("plan", sa.Text),  # JSON of canary.plan.Plan: what is drawn from; none until it has begun
    sa.Column("findings", sa.Text),  # JSON of canary.comparison.Findings, at the last look
    sa.Column("reasons", sa.Text, nullable=False),  # JSON list of sentences
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("finished_at", sa.Float),
    sa.Column("heartbeat_at", sa.Float),
)

canary_pairs = _table(  # one exchange probed on both sides: numbers, no text
    "canary_pairs",
    sa.Column("canary_id", sa.String(36), sa.ForeignKey("canaries.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),  # of the draw
    sa.Column("body", sa.Text, nullable=False),  # JSON of canary.comparison.Pair
)
