"""result.json (contract 2) as structs, and numbers that finished runs of two suites give together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.judge_validation import Validation
from auditors.types import Estimate, JudgeStamp
from benchmarks.run.completers.served import ServerDefaults
from benchmarks.run.estimation import Precision, RankResamples
from benchmarks.run.judge import JudgeUsed, model_status
from benchmarks.run.thinking import ThinkingFound, exhausted_reason
from benchmarks.suites.common.assessable import too_little
from benchmarks.suites.common.estimation import NOT_ASSESSABLE
from benchmarks.suites.common.observations import items_of, without_exhausted
from benchmarks.suites.protocol import STATUSES, DataKind, JointScore, Mode, Observation, ProtocolName


class ShareChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the pairs of replies that changed, with an interval by cluster."""

    n: int
    value: float
    """0..1."""
    lower: float | None
    upper: float | None


class HeadlineNoise(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of asking again on the headline number of a run of this size, in the number's own unit."""

    metric: str
    standard_deviation: float | None
    lower: float | None = None
    upper: float | None = None
    """Upper end of the 95 % interval of the standard deviation."""
    difference: float | None = None
    """The headline numbers of two such runs differ by no more in 95 % of cases, where nothing else differs."""
    reason: str | None = None


class Repeats(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between the first reply to an item and its repeat."""

    share: float
    n_asked: int
    n_pairs: int
    """Items of which both replies arrived; all below is about these."""
    requests: int
    text: ShareChanged | None
    """Replies with another text; None in mode exact, where they have none, and without pairs."""
    answer: ShareChanged | None
    """Replies read as something else: another status, value or, in mode exact, probability."""
    headline: HeadlineNoise

    @property
    def words(self) -> str:
        """One line for the reader."""
        if self.answer is None:
            return f"asked again: no pair of replies among {self.n_asked} items"
        text = "" if self.text is None else f"{_percent(self.text)} came back in other words, "
        noise = self.headline.reason
        if self.headline.difference is not None:
            by_chance = f"{self.headline.difference:.3g} or less by chance alone (95 %)"
            noise = f"{self.headline.metric} of two such runs differs by {by_chance}"
        return f"asked again: of {self.n_pairs} replies {text}{_percent(self.answer)} with another answer; {noise}"


def _percent(share: ShareChanged) -> str:
    if share.lower is None or share.upper is None:
        return f"{100 * share.value:.1f} %"
    return f"{100 * share.value:.1f} % ({100 * share.lower:.1f} to {100 * share.upper:.1f})"


SCHEMA = 1


class DatasetUsed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: DataKind
    sha256: str
    n_canonical: int
    n_used: int
    left_out: Mapping[str, int] = {}
    """Records that give no item, by reason; for the user's own prompts."""

    @property
    def words(self) -> str:
        """Items asked, and how many the published data has: a protocol may ask more."""
        asked = f"{self.n_used:,}"
        return asked if self.kind == "embedded" else f"{asked} asked, {self.n_canonical:,} in the data"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The log of another harness that the replies come from. Prompts and settings are its own."""

    harness: str
    version: str
    task: str
    log_sha256: str
    n_replies: int
    left_out: dict[str, int]
    """Replies of the log that are in no number, by reason."""

    @property
    def words(self) -> str:
        return f"{self.harness} {self.version}, task {self.task}"


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that a run asked, without passwords."""

    base_url: str
    through_gateway: bool = False
    judge_base_url: str | None = None
    """The judge's server; None: the model's."""
    embedder_base_url: str | None = None
    """The embedder's server; None: loaded here."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Origin and time of the replies. Times are ISO 8601 in UTC; none of this changes a number."""

    biasgate: str
    base_url_host: str | None = None
    addresses: Addresses | None = None
    """Servers asked; None: no server, or by an older version."""
    fingerprints: list[str] = []
    embedder: str | None = None
    judge: list[JudgeStamp] = []
    """Judges of the replies; more than one form or question only if a suite asks more than one."""
    thinking: ThinkingFound | None = None
    """The server's handling of thinking when it was last asked; None if it was not asked."""
    server_defaults: ServerDefaults | None = None
    """The server's own sampling and context, and the neutral values sent in their place; None: it was not asked."""
    judge_defaults: ServerDefaults | None = None
    """The same of the judge's server; None: no judge was asked, or by an earlier process."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    """Tokens of the requests and of the replies, thoughts included, as the server counted them; 0 if it did not."""
    replies_cut: int = 0
    """Replies that ended by their limit of tokens (finish_reason "length")."""
    replies_lowered: int = 0
    """Replies whose limit was lowered to what the model's context leaves."""
    least_tokens: int | None = None
    """Lowest of these limits; None without any."""
    refused_by_filter: int = 0
    """Replies that a filter before or behind the model refused; `refusal` in the counts."""
    policies: dict[str, int] = {}
    """Replies by what a gateway says of its policy (`benchmarks.run.completers.served.POLICY`); empty without any."""
    judge_validation: Validation | None = None
    """The comparison of that judge with people that was given, whether it holds or not."""
    prompt_sha256: str
    """sha256 over the rendered prompts of all items used, in order."""
    started: str | None = None
    """Time at which the run was first started, by any process; see `benchmarks.run.log.Beginning`."""
    finished: str | None = None
    requests: int = 0
    """Sent for the replies that count, and for the last question about thinking; retries are none."""
    replies_from_cache: int = 0
    """Replies of earlier runs that were used again (benchmarks.run.completers.reply_cache)."""
    seconds: float = 0.0
    """Wall time from first start to end, over all processes in turn, less time cancelled, failed or stopped."""
    imported: Imported | None = None
    """The imported log; None: biasgate asked, or the replies were recorded to its prompts."""

    @property
    def asked_by(self) -> str | None:
        """Harness and task whose prompts these are; None for biasgate's own."""
        return None if self.imported is None else self.imported.words

    @property
    def policy(self) -> str | None:
        """Names of the gateway's policies under which the replies came; None without any."""
        return ", ".join(sorted({stated.split(";")[0].removeprefix("policy=") for stated in self.policies})) or None

    @property
    def judged_by(self) -> str | None:
        """Model, question, form and thinking of the judge in words; None where none was asked."""
        return "; ".join(dict.fromkeys(map(_in_words, self.judge))) or None


def _in_words(stamp: JudgeStamp) -> str:
    """Return the judge in words; records without a setting of thinking are of judges that do not think."""
    thinking = "" if stamp.thinking in (None, "off") else f", thinking {stamp.thinking}"
    return f"{stamp.model}, question {stamp.prompt_sha256[:12]}, as {stamp.form}{thinking}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A single finished run of a single suite."""

    schema: int = SCHEMA
    suite: str
    suite_version: str
    protocol: ProtocolName
    mode: Mode
    model: str
    mitigation: str = "none"
    few_shot: int = 0
    seed: int
    samples: int = 1
    limit: int | None = None
    subset: str | None = None
    axes: tuple[str, ...] | None = None
    """Axes asked about; None: all axes of the suite."""
    temperature: float | None = None
    """Set by the user; None: the protocol's."""
    thinking: str = "default"
    extra_body: dict[str, Any] | None = None
    embedder: str | None = None
    """Embedder as the user named it; its own name is in the provenance."""
    evaluate: tuple[str, ...] = ()
    """Directories of runs whose texts were evaluated (cogs)."""
    joined_data: DataKind | None = None
    """Data of the other suite's run in the score of both; None without such a score."""
    precision: Precision | None = None
    """Point at which a run stopped that was to ask only as much as it needed; None: it was to ask everything."""
    repeats: Repeats | None = None
    """Changes between items and their repeats; None if no item was asked again."""
    dataset: DatasetUsed
    counts: dict[str, int]
    """items, and replies by status before any judge (`judge.counts`); the statuses add up to items times samples."""
    assessable: bool | None = None
    """True if the run says anything about the model; None: of a version before, see `fault`."""
    not_assessable: str | None = None
    share_that_names_an_option: float | None = None
    """Share in [0, 1] of replies (exact: of probability); UnQover, RealToxicityPrompts count undecided ones too."""
    axes_not_assessable: dict[str, str] = {}
    """Axes without enough such replies, with the reason."""
    estimates: list[Estimate]
    expected_by_chance: float | None = None
    """Stars that chance alone would give this result on average (benchmarks.run.estimation); None: nothing tested."""
    rank_resamples: list[RankResamples] = []
    """Resamples of the number by which the suite ranks models, by axis; empty for a suite without ranks."""
    judge: JudgeUsed | None = None
    """The judge and how far it may be relied on; None for a suite without a judge."""
    provenance: Provenance

    @property
    def series(self) -> dict[str, Any]:
        """Return what must be the same for two numbers to belong in a single series, table or gate."""
        return {
            "suite": self.suite,
            "suite_version": self.suite_version,
            "protocol": self.protocol,
            "mode": self.mode,
            "few_shot": self.few_shot,
            "subset": self.subset,
            "axes": shown_axes(self.axes),
            "temperature": self.temperature,
            "thinking": self.thinking,
            "extra_body": shown_fields(self.extra_body),
            "asked_by": self.provenance.asked_by,
            "judge": self.provenance.judged_by,
            "embedder": self.provenance.embedder,
            "dataset_sha256": self.dataset.sha256,
        }

    @property
    def fault(self) -> str | None:
        """Why nothing can be said about the model; None where something can."""
        if self.assessable is not None:
            return self.not_assessable
        statuses: dict[str, int] = {status: self.counts.get(status, 0) for status in STATUSES}
        return too_little(statuses, self.counts.get("ok", 0), "sample")

    def fault_of(self, estimate: Estimate) -> str | None:
        """Why nothing can be said about the model with one of the estimates; None where something can."""
        reason: str | None = estimate.extra.get(NOT_ASSESSABLE)
        return reason if self.assessable is not None else self.fault

    @property
    def judge_fault(self) -> str | None:
        """Why the numbers rest on a judge that is not validated; None when they do not."""
        if self.judge is not None:
            return self.judge.reason
        return "the result was made before judges were validated: score it again" if self.provenance.judge else None

    @property
    def judge_warnings(self) -> tuple[str, ...]:
        """Sentences about what keeps the judge from judging."""
        return () if self.judge is None else self.judge.warnings

    @property
    def thinking_fault(self) -> str | None:
        """Why the run has no headline number: too many replies ran out of tokens while the model was thinking."""
        return exhausted_reason(self.counts.get("thinking_exhausted", 0), self.n_replies, self.thinking)

    @property
    def length_note(self) -> str | None:
        """The replies that the model's context held shorter than the suite would; None where it held none."""
        about = self.provenance
        if not about.replies_lowered:
            return None
        return (
            f"{about.replies_lowered} of {self.n_replies} replies had room for {about.least_tokens} tokens or more, "
            f"all that the model's context leaves, and less than the suite gives; {about.replies_cut} were cut off"
        )

    @property
    def filter_note(self) -> str | None:
        """The gateway's policies and the replies that a filter refused; None without either."""
        about = self.provenance
        if about.policy is None and not about.refused_by_filter:
            return None
        under = "" if about.policy is None else f"policy of the gateway: {about.policy}; "
        return f"{under}a filter refused {about.refused_by_filter:,} of {self.n_replies:,} replies"

    @property
    def n_replies(self) -> int:
        return sum(self.counts.get(status, 0) for status in STATUSES)


def shown_axes(axes: Sequence[str] | None) -> str | None:
    """Return the axes as a line of text, independent of their order; None for all."""
    return None if axes is None else ", ".join(sorted(axes))


def shown_fields(extra_body: Mapping[str, Any] | None) -> str | None:
    """The user's own fields in one line, the same for the same fields; None for none."""
    return msgspec.json.encode(extra_body, order="sorted").decode() if extra_body else None


def counts(observations: Sequence[Observation]) -> dict[str, int]:
    by_status = Counter(model_status(observation.reply) for observation in observations)
    n_items = len(items_of(observations))
    return {"items": n_items} | {status: by_status[status] for status in STATUSES}


def decode(content: bytes) -> Result:
    """Raises msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(content, type=Result)


def encode(result: Result) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def joined(
    result: Result,
    joint: JointScore,
    own: Sequence[Observation],
    partners: Sequence[Observation],
    partners_data: DataKind,
) -> Result:
    """The declaring suite's result with the joint score of it and a run of the partner with the same options."""
    rest = [estimate for estimate in result.estimates if estimate.metric != joint.metric]
    estimates = joint.estimates(without_exhausted(own), without_exhausted(partners), result.protocol, result.seed)
    if result.precision is not None:
        estimates = [
            msgspec.structs.replace(estimate, lower=None, upper=None, method=None, reason=STOPPED)
            for estimate in estimates
        ]
    statuses = counts(partners)
    if fault := result.fault or too_little({status: statuses[status] for status in STATUSES}, statuses["ok"], "sample"):
        estimates = [
            msgspec.structs.replace(estimate, extra={**estimate.extra, NOT_ASSESSABLE: fault}) for estimate in estimates
        ]
    return msgspec.structs.replace(result, estimates=[*rest, *estimates], joined_data=partners_data)


STOPPED = "no interval: the two runs stopped at different looks (--precision)"
