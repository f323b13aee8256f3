"""Every setting and its default, as frozen structs. Secrets are only named, never held."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.errors import ConfigError

Probability = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
BY_MODEL, BY_ROUTE = "model:", "route:"
"""Beginnings of the names of strata that belong to a model or to an endpoint."""
DECISION_PATHS = ("/v1/systemone", "/v1/decisions")
AUDITED_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", *DECISION_PATHS)
QUESTION_MEMBERS: Mapping[str, str] = {
    "/v1/chat/completions": "messages",
    "/v1/completions": "prompt",
    "/v1/messages": "messages",
    "/v1/responses": "input",
}
"""Endpoint to the member of its body that holds what is asked."""
OWN_PATHS = frozenset(
    {"annotations", "audits", "canaries", "console", "ingest", "judges", "labelling", "live", "livez"}
    | {"metrics", "readyz", "schedules", "schema", "suites"}
)
"""First segments of the gateway's own routes; "/" leads to the console."""
LONGEST_STRATUM = 64
"""Characters of a stratum's name; as wide as the store's columns."""
ADMIN = "admin"
"""Name of the control key that `server.admin_key_env` is."""
LONGEST_KEY_NAME = 100
"""Characters of a control key's name; the record of accesses holds no more."""
Process = Literal["gateway", "writer", "auditor"]
"""Kinds of processes of a running biasgate."""


def _variable(*read_by: Process) -> Meta:
    """Mark a setting that names an environment variable with the processes that read the variable."""
    return Meta(extra={"read_by": frozenset(read_by)})


GatewayVariable = Annotated[str | None, _variable("gateway")]
AuditorVariable = Annotated[str | None, _variable("auditor")]
SharedVariable = Annotated[str | None, _variable("gateway", "auditor")]
StoreVariable = Annotated[str | None, _variable("gateway", "writer", "auditor")]
Redacted = Literal["email", "phone", "card", "key", "iban", "ip", "number", "name"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every section: frozen, keyword-only, unknown keys refused."""


class ControlKeyConfig(Section, frozen=True):
    name: str
    """Name in logs and the record of readers."""
    key_env: Annotated[str, _variable("gateway")]
    """Variable with the key."""
    role: Literal["viewer", "admin"] = "viewer"
    """viewer: reads numbers. admin: all of the control plane (docs/security.md#keys-and-roles)."""


class ServerConfig(Section, frozen=True):
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """0 takes a free port."""
    workers: Count = 1
    """Gateway processes."""
    relayed_paths: list[str] = []
    """Paths outside /v1 to relay, never audited (docs/operations.md#relayed-paths)."""
    allow_open: bool = False
    """Listen beyond loopback without keys for both planes."""
    admin_key_env: GatewayVariable = None
    """Variable with the key of an admin named `admin`; without control keys the control plane is open."""
    control_keys: list[ControlKeyConfig] = []
    protect_metrics: bool = False
    """`GET /metrics` of both roles needs a control key."""
    allowed_hosts: list[str] = []
    """Hosts (no port) besides loopback at which, and from whose pages, a control plane without keys may be called."""
    cors_origins: list[str] | str = []
    """Origins of pages that may call the data plane, or "*" (docs/operations.md#browsers)."""
    visitors_project: str | None = None
    """Labelling project whose texts all who see the console may read (docs/console.md#a-visitors-own-polygon)."""
    max_body_bytes: Count = 32 * 1024 * 1024
    """Larger requests get 413 `request_too_large`."""
    max_buffered_bytes: Count = 512 * 1024 * 1024
    """All bodies in a worker; above it 503 `overloaded` for the largest unfinished or new body."""
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024
    """Request line and headers, chunk extensions, trailers; above it 431."""
    max_headers: Count = 128
    """Above it 431."""
    header_timeout_seconds: Positive = 30.0
    """Time for the headers; then 408."""
    body_timeout_seconds: Positive = 60.0
    """Longest silence in a body; then 408."""
    body_min_bytes_per_second: Count = 500
    """Slowest average pace of a body after `body_timeout_seconds`."""
    drain_seconds: Annotated[float, Meta(ge=0)] = 30.0
    """Time for requests in flight after SIGTERM."""
    drain_notice_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Time before the drain in which /readyz fails and all is served."""
    metrics_dir: str | None = None
    """Local directory that workers share, and an auditor of this machine; unset: temporary."""
    auditor_metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 9108
    """The auditor's /metrics, /livez, /readyz."""


class StoreConfig(Section, frozen=True):
    url: str = "sqlite:///biasgate.db"
    """Also `postgresql://USER:PASSWORD@HOST/DB`, passed as `BIASGATE_STORE__URL`."""
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    """Older exchanges are deleted; measurements stay."""
    measurement_retention_days: Annotated[float, Meta(ge=1)] | None = None
    """Older measurements are deleted by UTC day; unset: stay."""
    keep_text: bool | Literal["never"] = True
    """false: text is dropped once audited. never: until then, under a key held in memory only."""
    redact: list[Redacted] = msgspec.field(
        default_factory=lambda: ["email", "phone", "card", "key", "iban", "ip", "number"]
    )
    """Kinds replaced by `[kind]` in stored text; "name" on request; `[]`: none."""
    encryption_key_env: StoreVariable = None
    """Variable with Fernet keys for stored text, newest first, separated by commas."""

    @property
    def keeps_text(self) -> bool:
        """True if text stays until `retention_days`."""
        return self.keep_text is True


class TimeoutsConfig(Section, frozen=True):
    connect: Positive = 5.0
    """Time to connect, TLS included."""
    first_byte: Positive = 300.0
    """Time from the request to the body's first byte (the first token), the upstream's queue included."""
    idle: Positive = 120.0
    """Longest silence in the body while the client reads."""
    total: Positive = 3600.0
    """Time from the request's headers to the last byte."""


class EjectionConfig(Section, frozen=True):
    consecutive_failures: Count = 5
    """Failures in a row before ejection."""
    base_seconds: Positive = 1.0
    """First ejection; each relapse doubles it."""
    max_seconds: Positive = 60.0
    """Longest ejection."""
    slow_start_seconds: Annotated[float, Meta(ge=0)] = 10.0
    """Time from a tenth of the share to all; 0: at once."""


class UpstreamConfig(Section, frozen=True):
    name: str
    """Label in metrics and `x-biasgate-upstream`."""
    base_url: str
    """A trailing /v1 is allowed."""
    api_key_env: SharedVariable = None
    """Variable with the key sent instead of the client's."""
    models: list[str] = msgspec.field(default_factory=lambda: ["*"])
    """Models served there; "*" asks the upstream."""
    weight: Positive = 1.0
    """Share of the load."""
    priority_scheduling: bool = True
    """vLLM runs with `--scheduling-policy priority`."""
    audit_headers: dict[str, str] = {}
    """Headers of audit requests there, in place of a client's (docs/integrations/llm-d.md)."""
    timeouts: TimeoutsConfig = TimeoutsConfig()
    ejection: EjectionConfig = EjectionConfig()
    max_connections: Count = 1024
    """Limit for each worker."""

    @property
    def origin(self) -> str:
        """The base URL without a trailing slash or /v1."""
        return origin_of(self.base_url)


class BalancingConfig(Section, frozen=True):
    """Decides which of several upstreams that serve a model gets a request."""

    policy: Literal["least_loaded", "consistent_hash"] = "least_loaded"
    """consistent_hash: the same upstream for the same key."""
    header: str | None = None
    """Header whose value is the key; else the prompt is."""
    prefix_bytes: Annotated[int, Meta(ge=0, le=65536)] = 1024
    """Bytes of the prompt that are the key; 0: least loaded."""
    max_load_ratio: Annotated[float, Meta(ge=1, le=100)] = 1.25
    """Load, in times of the fair share, above which the next upstream is used."""


class KeyConfig(Section, frozen=True):
    name: str
    """Stored with exchanges."""
    key_env: Annotated[str, _variable("gateway")]
    """Variable with the key."""
    audit: bool = True
    """false: its requests count as `opted_out`."""
    may_opt_out: bool = True
    """Honour `x-biasgate-audit`: `off`, or `on` (rate 1, lowered under load); without `[[keys]]` for all clients."""
    may_set_priority: bool = False
    """Leave the request's `priority`."""
    may_state_rate: bool = False
    """Believe stated sampling rates (docs/ingest.md#the-senders-sampling-rate); without `[[keys]]` never."""
    requests_per_minute: Count | None = None
    """Limit on each machine; above it 429 `rate_limited` with `retry-after`."""


class SamplingConfig(Section, frozen=True):
    secret_env: SharedVariable = None
    """Variable with the secret of decisions; unset: drawn at each start, decisions cannot be reproduced."""
    rate: Probability = 0.05
    """Probability that an exchange is sampled."""
    strata: dict[str, Probability] = {}
    """Rates by stratum; the first that applies holds: a tag, `model:NAME` (after aliases), `route:PATH`,
    `identity_mention` (an identity term in the request's first and last 64 KiB), `other`."""
    max_text_bytes: Count = 256 * 1024
    """Text of a stored body; more counts as `truncated`."""
    max_copy_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    """Whole body in memory; more counts as `truncated`; a worker's copies together: 128 MiB."""
    buffer_exchanges: Count = 2048
    """A worker's copies not yet stored; the recorded rate falls before it is full."""
    max_backlog: Count = 10_000
    """Waiting exchanges; above it recorded rates fall in proportion."""
    min_rate: Probability | None = None
    """Lowest recorded rate; unset: an eighth of the configured rate."""
    max_share_per_key: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Largest share of the sample for a key or the anonymous client (docs/security.md#what-a-client-cannot-set)."""
    tags: list[str] = []
    """Accepted in `x-biasgate-tag` from every client; a tag with rate 0 avoids audits."""


class AuditorConfig(Section, frozen=True):
    enabled: bool = True
    model: str | None = None
    """judge: the judging model; unset: the audited model. embedding: `"minilm"`, a directory, or a
    Sentence-Transformers name; for all that compare answers. counterfactual: also judges answers; unset: no judge."""
    base_url: str | None = None
    """The model's OpenAI API; unset: the exchange's upstream, or a local embedder."""
    api_key_env: AuditorVariable = None
    """Variable with the key."""
    rate: Probability = 1.0
    """Share of the sampled exchanges."""
    max_concurrency: Count = 4
    """Requests in flight."""
    timeout_seconds: Positive = 120.0
    """Then the audit has failed."""
    token_budget_per_minute: Count | None = None
    """Requests wait when the budget is spent."""
    max_tokens: Count = 256
    """Longest answer, without thoughts."""
    thinking: str | None = None
    """`off`, `on`, `budget=N`, `default` (docs/auditors.md#models-that-think); unset: off for judges, else as live."""

    @property
    def keeps_words(self) -> bool:
        """True if the text that the auditor is told stays with the exchange."""
        return False


class JudgeConfig(AuditorConfig, frozen=True):
    reference_set: str | None = None
    """File of `judge reference create` (docs/judges.md#watch-a-judge-for-drift); needs `model` and `base_url`."""
    reference_every_hours: Annotated[float, Meta(ge=1 / 60)] = 24.0
    """Pause between passes over the reference set."""
    keep_reasons: bool = False
    """Ask for the judge's reasons and store them (docs/auditors.md#reasons); needs `store.keep_text = true`."""

    @property
    def keeps_words(self) -> bool:
        return self.keep_reasons


class EmbeddingConfig(AuditorConfig, frozen=True):
    backend: Literal["torch", "openvino", "cuda"] = "torch"
    """Software of a local embedder (docs/evidence/scaling.md#the-local-embedder); extra "openvino"."""
    identities: str | None = None
    """TOML file of own axes (docs/suites.md#own-axes-and-tasks); unset: race, gender and sexual orientation."""


class ProbingAuditorConfig(AuditorConfig, frozen=True):
    """Settings of an auditor that asks the served model several questions an exchange: disabled by default."""

    enabled: bool = False
    rate: Probability = 0.1
    token_budget_per_minute: Count | None = 60_000


class AffinityConfig(ProbingAuditorConfig, frozen=True):
    identities: str | None = None
    """Like the key of `auditors.embedding`; may be the same file."""


class CounterfactualConfig(ProbingAuditorConfig, frozen=True):
    keep_answers: bool = False
    """Store the swapped question and both answers; needs `store.keep_text = true`."""

    @property
    def keeps_words(self) -> bool:
        return self.keep_answers


class FirstPersonConfig(ProbingAuditorConfig, frozen=True):
    by: Literal["answers", "likelihood"] = "answers"
    """`likelihood`: score the answer given (`prompt_logprobs`)."""


class LikelihoodConfig(ProbingAuditorConfig, frozen=True):
    keep_shares: bool = False
    """Store each word's share of the difference, to colour the answer on its page; needs `store.keep_text = true`."""

    @property
    def keeps_words(self) -> bool:
        return self.keep_shares


class DecisionAuditorConfig(ProbingAuditorConfig, frozen=True):
    threshold: Probability | None = None
    """Probability from which the application acts, unless `x-biasgate-threshold` says it; unset: 0.5, or the top
    option."""
    favourable: list[str] = []
    """Good options of a choice, in order of search; case does not matter."""


class ThoughtAuditorConfig(AuditorConfig, frozen=True):
    """Settings of an auditor of what models think (docs/auditors.md#judge_thought): disabled by default."""

    enabled: bool = False


class AuditorsConfig(Section, frozen=True):
    judge: JudgeConfig = JudgeConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    refusal: AuditorConfig = AuditorConfig()
    affinity: AffinityConfig = AffinityConfig()
    counterfactual: CounterfactualConfig = CounterfactualConfig()
    decision: DecisionAuditorConfig = DecisionAuditorConfig()
    first_person: FirstPersonConfig = FirstPersonConfig()
    likelihood: LikelihoodConfig = LikelihoodConfig()
    judge_thought: ThoughtAuditorConfig = ThoughtAuditorConfig()
    refusal_thought: ThoughtAuditorConfig = ThoughtAuditorConfig()
    plugins: dict[str, AuditorConfig] = {}
    """[auditors.plugins.NAME]: of the auditors that other distributions bring; one without a section does not run."""

    @property
    def has_own_axes(self) -> bool:
        return any(section.identities is not None for section in (self.embedding, self.affinity))

    @property
    def sections(self) -> dict[str, AuditorConfig]:
        ours = {name: getattr(self, name) for name in self.__struct_fields__ if name != "plugins"}
        return self.plugins | ours


class DriftConfig(Section, frozen=True):
    average_run_length: Annotated[float, Meta(gt=1)] = 100_000.0
    """Mean number of audited exchanges between false alarms of all streams, at least."""
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.02
    """Distance from the reference that is not drift."""
    smallest_change: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """A stream's own reference learns until it can find this; 1: final at once."""
    equivalence_margin: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Change, on 0..1, that is shown to be absent (docs/drift.md#streams-that-did-not-move)."""
    false_discovery_rate: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    """Share of the streams listed as moved that did not move, at most."""
    reference: dict[str, int | str] = msgspec.field(default_factory=lambda: {"window": 2000})
    """A stream's first N audits, or `{run = ID}`: a finished suite run."""


class ScheduleConfig(Section, frozen=True):
    """Times at which suites run, and which; omitted fields are as in `POST /audits`."""

    name: str
    """Name in `GET /schedules`."""
    suites: list[str]
    model: str
    cron: str | None = None
    """Five fields, UTC: `0 3 * * 1` is Mondays at three."""
    every_hours: Annotated[float, Meta(ge=1 / 60)] | None = None
    """Instead of `cron`."""
    options: dict[str, Any] = {}
    """Other fields of `POST /audits` (docs/api.md#suites-and-audits)."""


class AuditsConfig(Section, frozen=True):
    max_concurrency: Count = 16
    """Requests in flight of a suite run, in each auditor."""
    max_queued: Count = 100
    """Waiting suite runs; beyond it 429."""
    adaptive_concurrency: bool = True
    """Audits give way (docs/operations.md#audits-give-way)."""
    max_kv_usage_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """Key-value cache use above which audits give way."""
    live_latency_budget_ratio: Annotated[float, Meta(ge=0)] = 1.05
    """Allowed time between live tokens with audits, in times of that without, above 1; 0: any."""
    max_pause_seconds: Positive = 10.0
    """Longest pause without an audit."""
    max_wait_hours: Positive = 24.0
    """Longest wait for a sick server (docs/operations.md#a-sick-judge)."""
    priority: Annotated[int, Meta(ge=1)] = 10
    """Priority of audits in vLLM; live requests have 0."""
    on_model_change: list[str] = []
    """Suites to run when an upstream serves a new or changed model."""
    thinking: str = "default"
    """Thinking of the runs of `on_model_change`: `off`, `on`, `budget=N`, `default`."""
    coverage_every_hours: Annotated[float, Meta(ge=0)] = 24.0
    """Pause between computations of coverage (docs/coverage.md); 0: on request."""
    schedules: list[ScheduleConfig] = []
    bundle_key_env: GatewayVariable = None
    """Variable with an Ed25519 key (PEM) for bundles (docs/bundles.md#from-a-running-gateway)."""
    canary_webhook_env: AuditorVariable = None
    """Variable with a URL for verdicts of canaries (docs/canary.md#http)."""
    judge_validation: str | None = None
    """File of `judge calibrate --out`, or `sha256:DIGEST`; without it numbers are marked
    (docs/suites.md#judges-embedders-evaluators)."""
    data_dir: str | None = None
    """Data sets; unset: `$BIASGATE_HOME` or ~/.cache/biasgate."""


class TelemetryConfig(Section, frozen=True):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, else json."""
    access_log: bool = False
    """A line for each relayed request (no text) and each control request; changes are always logged."""
    otlp_endpoint: str | None = None
    """OpenTelemetry collector (OTLP over HTTP); extra "otel"."""
    evaluation_signal: Literal["logs", "traces"] | None = None
    """Form in which evaluation events go to the collector (docs/operations.md#evaluation-events)."""
    evaluation_reasons: bool = False
    """Events repeat reasons of judges and servers, which may quote the exchange."""
    trace_rate: Probability = 1.0
    """Traced share of requests without a `traceparent`."""


class Config(Section, frozen=True):
    """The core's sections of the configuration (contract 5); see `gateway.config.sections` for those of features."""

    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    upstreams: list[UpstreamConfig] = []
    balancing: BalancingConfig = BalancingConfig()
    keys: list[KeyConfig] = []
    aliases: dict[str, str] = {}
    sampling: SamplingConfig = SamplingConfig()
    auditors: AuditorsConfig = AuditorsConfig()
    drift: DriftConfig = DriftConfig()
    audits: AuditsConfig = AuditsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    def secret(self, variable: str | None) -> str | None:
        """Value of a named environment variable; ConfigError when the name is set and the variable is not."""
        if variable is None:
            return None
        value = os.environ.get(variable)
        if not value:
            raise ConfigError(f'environment variable "{variable}" is named in the configuration but not set: export it')
        return value


def origin_of(base_url: str) -> str:
    """A server's base URL without a trailing slash or /v1."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")
