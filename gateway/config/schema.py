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
    key_env: Annotated[str, _variable("gateway")]
    role: Literal["viewer", "admin"] = "viewer"
    """viewer: reads numbers. admin: reads text too, and starts, stops, acknowledges and deletes."""


class ServerConfig(Section, frozen=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """0 takes a free port."""
    workers: Count = 1
    """Gateway processes; one is enough until a core is full."""
    relayed_paths: list[str] = []
    """Paths outside /v1 that are relayed to an upstream too, such as "/tokenize"; none is ever audited."""
    allow_open: bool = False
    """Listen beyond the loopback interface although data plane or control plane asks for no key."""
    admin_key_env: GatewayVariable = None
    """Environment variable with one admin key of the control plane; without any control key it is open."""
    control_keys: list[ControlKeyConfig] = []
    protect_metrics: bool = False
    """GET /metrics needs a control key too, here and at the auditor."""
    allowed_hosts: list[str] = []
    """Names under which the control plane may be called besides localhost, 127.0.0.1 and [::1] while no control key
    protects it, and from whose pages a browser may call it; without a port."""
    cors_origins: list[str] | str = []
    """Origins of web pages that may call the data plane from a browser, such as "https://app.example", or "*" for any.
    Empty: the gateway adds no CORS headers, and preflights go to an upstream without a key."""
    visitors_project: str | None = None
    """Labelling project of the form choice whose texts everybody who sees the console may read, to see their own
    polygon at /console/fingerprints/yours."""
    max_body_bytes: Count = 32 * 1024 * 1024
    max_buffered_bytes: Count = 512 * 1024 * 1024
    """Request bodies that one worker holds at a time, all together; beyond it the largest that is still coming gets a
    503. A body above 64 KiB counts until the answer begins, a smaller one until its end."""
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024
    """Request line and headers together; also what chunk extensions and trailers may add to a body."""
    max_headers: Count = 128
    header_timeout_seconds: Positive = 30.0
    """Seconds from the first byte of a request, or the opening of a connection, to the end of the headers."""
    body_timeout_seconds: Positive = 60.0
    """Longest silence in a request's body, and the time after which `body_min_bytes_per_second` is asked for."""
    body_min_bytes_per_second: Count = 500
    drain_seconds: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds that SIGTERM waits for requests in flight, once new connections are refused."""
    drain_notice_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds before that in which /readyz says "not ready" while everything is still served: a balancer's time to
    notice."""
    metrics_dir: str | None = None
    """Directory that workers leave their counts and rate limits in for each other; default: a temporary directory per
    start."""
    auditor_metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 9108
    """Port of the auditor's own /metrics and /livez; 0 takes a free one."""


class StoreConfig(Section, frozen=True):
    url: str = "sqlite:///biasgate.db"
    """sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DB."""
    retention_days: Annotated[float, Meta(gt=0)] = 30.0
    """Sampled exchanges older than this are deleted by the auditor; measurements stay."""
    measurement_retention_days: Annotated[float, Meta(ge=1)] | None = None
    """Measurements older than this are deleted by the auditor, a day (UTC) at a time; unset: none are."""
    keep_text: bool | Literal["never"] = True
    """False: text is dropped from the store once audited. never: until then, under a key held in memory only."""
    redact: list[Redacted] = msgspec.field(
        default_factory=lambda: ["email", "phone", "card", "key", "iban", "ip", "number"]
    )
    """Kinds replaced by `[kind]` before text is stored; "name" only on request, [] stores text as it was."""
    encryption_key_env: StoreVariable = None
    """Variable with the Fernet keys that seal stored text, newest first, separated by commas; unset: readable."""

    @property
    def keeps_text(self) -> bool:
        """True if text stays until `retention_days`."""
        return self.keep_text is True


class TimeoutsConfig(Section, frozen=True):
    connect: Positive = 5.0
    """Seconds to open one connection, TLS included."""
    first_byte: Positive = 300.0
    """Seconds from the request to the first byte of the response's body; the upstream's queue counts."""
    idle: Positive = 120.0
    """Longest silence between two chunks of a response's body."""
    total: Positive = 3600.0
    """Seconds from the request's headers to the response's last byte."""


class EjectionConfig(Section, frozen=True):
    consecutive_failures: Count = 5
    """Failed requests in a row after which other upstreams are preferred."""
    base_seconds: Positive = 1.0
    """Length of the first ejection; each relapse doubles it."""
    max_seconds: Positive = 60.0
    slow_start_seconds: Annotated[float, Meta(ge=0)] = 10.0
    """Seconds that an upstream that comes back takes to reach its whole share."""


class UpstreamConfig(Section, frozen=True):
    name: str
    base_url: str
    """e.g. "http://127.0.0.1:8000"; a trailing /v1 is allowed."""
    api_key_env: SharedVariable = None
    models: list[str] = msgspec.field(default_factory=lambda: ["*"])
    """Models served there; "*" asks the upstream's own /v1/models."""
    weight: Positive = 1.0
    priority_scheduling: bool = True
    """The upstream runs with --scheduling-policy priority, so audits may be sent behind live traffic."""
    audit_headers: dict[str, str] = {}
    """Sent with every audit request, such as the objective by which an inference gateway puts it behind live ones."""
    timeouts: TimeoutsConfig = TimeoutsConfig()
    ejection: EjectionConfig = EjectionConfig()
    max_connections: Count = 1024

    @property
    def origin(self) -> str:
        """The base URL without a trailing slash or /v1."""
        return origin_of(self.base_url)


class BalancingConfig(Section, frozen=True):
    """Decides which of several upstreams that serve a model gets a request."""

    policy: Literal["least_loaded", "consistent_hash"] = "least_loaded"
    """least_loaded: who has had least for its weight. consistent_hash: the same one for the same key."""
    header: str | None = None
    """Header whose value is the key, such as "x-session-id"; a request without it goes by its prompt."""
    prefix_bytes: Annotated[int, Meta(ge=0, le=65536)] = 1024
    """The key of other requests: so many bytes of the body from its "messages", "prompt" or "input" on; 0: none."""
    max_load_ratio: Annotated[float, Meta(ge=1, le=100)] = 1.25
    """Requests in flight at one upstream, in times of its fair share, above which a key goes to its next one."""


class KeyConfig(Section, frozen=True):
    name: str
    key_env: Annotated[str, _variable("gateway")]
    audit: bool = True
    """False: no request with this key is ever sampled."""
    may_opt_out: bool = True
    may_set_priority: bool = False
    may_state_rate: bool = False
    """Believe the sampling rates that a sender of recorded exchanges states with this key (docs/ingest.md)."""
    requests_per_minute: Count | None = None
    """Requests per minute of all workers together."""


class SamplingConfig(Section, frozen=True):
    secret_env: SharedVariable = None
    """Variable with the secret of the sampling decision; unset draws one per start (decisions not reproducible)."""
    rate: Probability = 0.05
    strata: dict[str, Probability] = {}
    """Rate by stratum: a name from `tags`, "model:NAME", "route:PATH", "identity_mention" (the request names an
    identity term), "other". Of those that apply the first in this order holds."""
    max_text_bytes: Count = 256 * 1024
    """Bytes of text in each stored body: without events' envelopes, without media. A body that has more is counted as
    truncated."""
    max_copy_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    """Bytes of each body as it passes, held in memory until its text is stored; a larger body drops the copy, never the
    relay."""
    buffer_exchanges: Count = 2048
    """Copies waiting to be written; the recorded sampling rate is lowered before this fills."""
    max_backlog: Count = 10_000
    """Exchanges waiting for the auditors; above it the recorded rates fall in proportion, and come back."""
    min_rate: Probability | None = None
    """No rate falls below this, or below its configured value where that is smaller; unset: an eighth of the latter."""
    max_share_per_key: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Largest share of the sample that one key, or the anonymous client, may make up; 1 lets one key fill it."""
    tags: list[str] = []


class AuditorConfig(Section, frozen=True):
    enabled: bool = True
    model: str | None = None
    """judge: the judging model. embedding: a Sentence-Transformers name or directory, or "minilm", the packaged one.
    counterfactual: a model that judges its answers too; none for no judge.
    """
    base_url: str | None = None
    """Address at which that model is served (OpenAI API). judge: default is the upstream of the exchange itself."""
    api_key_env: AuditorVariable = None
    rate: Probability = 1.0
    """Share of the sampled exchanges that this auditor takes; multiplies the inclusion probability."""
    max_concurrency: Count = 4
    timeout_seconds: Positive = 120.0
    token_budget_per_minute: Count | None = None
    max_tokens: Count = 256
    """Longest answer asked for; what its model thinks before it does not count."""
    thinking: str | None = None
    """off, on, budget=N (tokens) or default: whether the model asked shall think before it answers. Unset: a judge is
    asked not to, and has room where its server thinks all the same; a probe thinks as its live request did."""

    @property
    def keeps_words(self) -> bool:
        """True if the text that the auditor is told stays with the exchange."""
        return False


class JudgeConfig(AuditorConfig, frozen=True):
    reference_set: str | None = None
    """File that `biasgate judge reference create` wrote: the judge is watched for drift by judging it again."""
    reference_every_hours: Annotated[float, Meta(ge=1 / 60)] = 24.0
    """Between two passes over the reference set."""
    keep_reasons: bool = False
    """Ask the judge once more, after its verdict, why it scored so, and keep that with the exchange."""

    @property
    def keeps_words(self) -> bool:
        return self.keep_reasons


class EmbeddingConfig(AuditorConfig, frozen=True):
    backend: Literal["torch", "openvino", "cuda"] = "torch"
    """Software that computes an embedder of the auditor's own."""


class ProbingAuditorConfig(AuditorConfig, frozen=True):
    """Settings of an auditor that asks the served model several questions an exchange: off unless wanted."""

    enabled: bool = False
    rate: Probability = 0.1
    token_budget_per_minute: Count | None = 60_000


class CounterfactualConfig(ProbingAuditorConfig, frozen=True):
    keep_answers: bool = False
    """Keep the question about another group, and the answers to both, with the exchange."""

    @property
    def keeps_words(self) -> bool:
        return self.keep_answers


class DecisionAuditorConfig(ProbingAuditorConfig, frozen=True):
    threshold: Probability | None = None
    """Probability from which the application acts, if a request names none (`x-biasgate-threshold`); unset: 0.5, and
    for a choice among several the option that leads."""
    favourable: list[str] = []
    """Options of a choice that are good to get, in the order in which they are looked for; case does not matter."""


class AuditorsConfig(Section, frozen=True):
    judge: JudgeConfig = JudgeConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    refusal: AuditorConfig = AuditorConfig()
    affinity: ProbingAuditorConfig = ProbingAuditorConfig()
    counterfactual: CounterfactualConfig = CounterfactualConfig()
    decision: DecisionAuditorConfig = DecisionAuditorConfig()
    plugins: dict[str, AuditorConfig] = {}
    """[auditors.plugins.NAME]: of the auditors that other distributions bring; one without a section does not run."""

    @property
    def sections(self) -> dict[str, AuditorConfig]:
        """The sections by name of the auditor."""
        ours = {name: getattr(self, name) for name in self.__struct_fields__ if name != "plugins"}
        return self.plugins | ours


class DriftConfig(Section, frozen=True):
    average_run_length: Annotated[float, Meta(gt=1)] = 100_000.0
    """Mean number of audited exchanges between two false alarms of all streams together, at least."""
    multiplicity: Literal["each", "mean"] = "each"
    """Way in which K streams share that: each alarms at K times the threshold, or all by their mean evidence."""
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.02
    """Distance beyond the reference that a mean may have, on the 0..1 scale, without being called a drift."""
    smallest_change: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Change on the 0..1 scale: until it can find this, a reference of a stream's own audits goes on learning."""
    reference: dict[str, int | str] = msgspec.field(default_factory=lambda: {"window": 2000})
    """{window = N}: the first N audits of a stream. {run = ID}: the estimates of a finished suite run."""


class ScheduleConfig(Section, frozen=True):
    """Times at which suites run, and which; omitted fields are as in `POST /audits`."""

    name: str
    suites: list[str]
    model: str
    cron: str | None = None
    """Five fields, UTC: "0 3 * * 1" is Mondays at three."""
    every_hours: Annotated[float, Meta(ge=1 / 60)] | None = None
    options: dict[str, Any] = {}
    """Further fields of `gateway.config.audit_request.AuditRequest`."""


class AuditsConfig(Section, frozen=True):
    max_concurrency: Count = 16
    """Requests of a single suite run in flight, in each auditor that asks it."""
    max_queued: Count = 100
    """Suite runs that may wait; another one is answered with 429."""
    adaptive_concurrency: bool = True
    """Send fewer audit requests, live auditors' and suites', while live work waits at their server."""
    max_kv_usage_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """Use of a server's key-value cache above which fewer audit requests are sent there."""
    live_latency_budget_ratio: Annotated[float, Meta(ge=0)] = 1.05
    """Largest time between tokens of live answers while audits run, in times of that without; above 1, or 0 for any."""
    max_pause_seconds: Positive = 10.0
    """However long live work waits, one audit request is sent after each pause of this length."""
    max_wait_hours: Positive = 24.0
    """Longest that an exchange waits for a judge or embedder that is sick; then its audit has failed."""
    priority: Annotated[int, Meta(ge=1)] = 10
    """vLLM priority of audit requests; live traffic has 0 and goes first."""
    on_model_change: list[str] = []
    """Suites that run whenever an upstream begins to serve something else under a model's name."""
    thinking: str = "default"
    """Thinking of models in runs that `on_model_change` starts: off, on, budget=N or default. Schedules say it in their
    options."""
    coverage_every_hours: Annotated[float, Meta(ge=0)] = 24.0
    """Between two looks at what no suite covers; 0: none. It needs the embedder of [auditors.embedding]."""
    schedules: list[ScheduleConfig] = []
    bundle_key_env: GatewayVariable = None
    """Variable with the private Ed25519 key (PEM) that signs `GET /audits/{id}/bundle`; unset: bundles are not signed.
    """
    canary_webhook_env: AuditorVariable = None
    """Variable with the URL that each verdict of a canary is posted to, as JSON; unset: none."""
    judge_validation: str | None = None
    """Result of `biasgate judge calibrate` about the judge of suite runs: a file, or sha256:DIGEST of a calibration in
    the store; without it they are marked."""
    data_dir: str | None = None
    """Dataset cache; default $BIASGATE_HOME or ~/.cache/biasgate."""


class TelemetryConfig(Section, frozen=True):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    access_log: bool = False
    """One log line for every relayed request that ended, and for every control request; what changes something there
    is logged anyway."""
    otlp_endpoint: str | None = None
    """Base URL of an OpenTelemetry collector (OTLP over HTTP), e.g. "http://127.0.0.1:4318"; unset: no traces."""
    evaluation_signal: Literal["logs", "traces"] | None = None
    """Form in which the auditor sends each measurement there. logs: an event `gen_ai.evaluation.result`. traces: a span
    below the live request's, for receivers that take traces alone. Unset: not at all."""
    evaluation_reasons: bool = False
    """An event's explanation repeats the reason that a judge or a server gave, which may quote the exchange."""
    trace_rate: Probability = 1.0
    """Share of the requests without a traceparent of their own that are traced."""


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
