"""Which live auditors there are, and what each needs to run. Add an auditor: one line in AUDITORS, one builder."""

from collections.abc import Callable
from typing import Protocol

from auditors.affinity import AffinityAuditor
from auditors.counterfactual import CounterfactualAuditor
from auditors.judge import JudgeAuditor
from auditors.refusal import RefusalAuditor
from auditors.representative import RepresentativeAuditor
from auditors.types import Auditor, Completer, Embedder, Exchange

AnyAuditor = JudgeAuditor | RepresentativeAuditor | CounterfactualAuditor | AffinityAuditor | RefusalAuditor

AUDITORS: dict[str, type[AnyAuditor]] = {
    "judge": JudgeAuditor,
    "embedding": RepresentativeAuditor,
    "affinity": AffinityAuditor,
    "counterfactual": CounterfactualAuditor,
    "refusal": RefusalAuditor,
}
"""Name, as in [auditors.NAME], to class."""

NEED_EMBEDDER = frozenset({"embedding", "counterfactual"})
"""Auditors that compare texts; they share the embedder of [auditors.embedding]."""

PROBES = frozenset({"embedding", "affinity", "counterfactual"})
"""Auditors that ask the upstream of an exchange, whatever else they ask; the judge does unless it has a server."""


class Settings(Protocol):
    """What an auditor reads of its [auditors.NAME] section."""

    @property
    def model(self) -> str | None: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def max_concurrency(self) -> int: ...


def build(
    name: str,
    settings: Settings,
    *,
    completer_for: Callable[[Exchange], Completer],
    judge: Completer | None = None,
    embedder: Embedder | None = None,
) -> Auditor:
    """The auditor of that name, ready to audit.

    Args:
        name: a key of AUDITORS.
        settings: its section of the configuration.
        completer_for: asks the upstream that served an exchange (choose by `exchange.upstream`), at audit priority and
            with that upstream's key. Needed by all but "refusal".
        judge: completer of an outside judge (`base_url` is set); None lets the exchange's upstream judge.
        embedder: for those in NEED_EMBEDDER (`auditors.embedding.load_embedder` or `RemoteEmbedder`).

    Raises: ValueError for an unknown name or a missing embedder.
    """
    if name in NEED_EMBEDDER and embedder is None:
        raise ValueError(f'auditor "{name}" needs an embedder')
    tokens, concurrency = settings.max_tokens, settings.max_concurrency
    match name:
        case "judge":
            ask = completer_for if judge is None else lambda _: judge
            return JudgeAuditor(ask, settings.model, max_tokens=tokens)
        case "embedding" if embedder is not None:
            return RepresentativeAuditor(completer_for, embedder, max_tokens=tokens, max_concurrency=concurrency)
        case "counterfactual" if embedder is not None:
            return CounterfactualAuditor(
                completer_for,
                embedder,
                judge=judge,
                judge_model=settings.model,
                max_tokens=tokens,
                max_concurrency=concurrency,
            )
        case "affinity":
            return AffinityAuditor(completer_for, max_tokens=tokens, max_concurrency=concurrency)
        case "refusal":
            return RefusalAuditor()
        case _:
            raise ValueError(f'"{name}" is no auditor; known: {", ".join(AUDITORS)}')
