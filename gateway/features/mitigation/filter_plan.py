"""The configuration of a filter, with the texts and numbers of its files: ready to be built."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auditors.text.mitigations import MitigationTextError, own_text
from auditors.text.user_files import read_utf8
from gateway.errors import ConfigError
from gateway.features.mitigation.config import QueryFilterConfig, ResponseFilterConfig

KIND = "biasgate filter head 1"
LONGEST_BYTES = 4 * 1024 * 1024
"""Largest file of a head, in bytes: weights for a hundred thousand dimensions."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Weights over L2-normalised embeddings."""

    kind: str
    embedder: str
    """Name of the embedding model that it was trained on."""
    weights: Annotated[tuple[float, ...], Meta(min_length=1)]
    bias: float
    threshold: Annotated[float, Meta(ge=0, le=1)]
    """Probability from which a text counts as biased, chosen on examples held out for that."""
    examples_sha256: str
    card: Mapping[str, Any] = {}
    """Record of its training, and of its results on held-out examples; nothing reads it."""

    def probability(self, embedding: Sequence[float]) -> float:
        """Return the probability of a text to be biased, 0..1. Raises ValueError for an embedding of another kind."""
        if len(embedding) != len(self.weights):
            raise ValueError(f"the embedding has {len(embedding)} dimensions, the head {len(self.weights)}")
        length = math.sqrt(math.fsum(x * x for x in embedding))
        if not 0 < length < math.inf:
            raise ValueError("the embedding has no direction")
        logit = sum(w * x for w, x in zip(self.weights, embedding, strict=True)) / length + self.bias
        return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def read_head(path: Path, where: str) -> Head:
    """Read a head from its file. Raises ConfigError when the file is not a head; `where` names it there."""
    try:
        if path.stat().st_size > LONGEST_BYTES:
            raise ConfigError(f"{where} {path}: larger than {LONGEST_BYTES} bytes: this is not a head of a filter")
        head = msgspec.json.decode(read_utf8(path), type=Head)
    except OSError as exc:
        raise ConfigError(f"{where} {path}: cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:  # msgspec's own and UnicodeDecodeError are ValueErrors
        raise ConfigError(f"{where} {path}: no head that `biasgate mitigate filter train` wrote: {exc}") from exc
    if head.kind != KIND:
        raise ConfigError(f'{where} {path}: its kind is "{head.kind[:100]}", this version reads "{KIND}"')
    return head


Name = Literal["query_filter", "response_filter"]
"""Name of a filter as in the configuration; the `action` of metrics."""

_QUERY = """\
You check requests before a language model answers them. A request is biased if it rests on a stereotype about a group \
of people or takes one for granted, if it asks for text that demeans a group or sets one above another, or if it asks \
to treat people differently because of their group. A request that only mentions a group, asks for facts, or asks how \
to counter a prejudice is not biased. Groups are those of gender, race, ethnicity, religion, nationality, age, \
disability, sexual orientation, social class, appearance or political view."""
_ANSWER = """\
You check answers of a language model before users see them. An answer is biased if it states or implies a stereotype \
about a group of people, demeans a group, sets one above another, or treats people differently because of their group. \
An answer that only mentions a group, reports a prejudice in order to reject it, or declines to answer is not biased. \
The answer may break off. Groups are those of gender, race, ethnicity, religion, nationality, age, disability, sexual \
orientation, social class, appearance or political view."""
PROMPTS = {"query_filter": _QUERY, "response_filter": _ANSWER}
"""Instructions of a judge where the configuration names no file."""


class FilterPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One filter. All of it belongs to the version of its policy; where its detector is served does not."""

    name: Name
    model: str
    then: Literal["refuse", "instruct"]
    prompt: str | None = None
    """A judge's instructions; None for a classifier."""
    head: Head | None = None
    """The classifier's head; None for a judge."""
    threshold: float | None = None
    window: int | None = None
    """See `ResponseFilterConfig.window`."""


def plan_of(config: QueryFilterConfig | None, name: Name) -> FilterPlan | None:
    """Return a filter's plan; None without a filter. Raises ConfigError for bad settings or an unusable file."""
    if config is None:
        return None
    if not config.base_url.startswith(("http://", "https://")):
        raise ConfigError(f'{name}.base_url "{config.base_url[:200]}" must start with http:// or https://')
    if not config.model.strip():
        raise ConfigError(f'{name}.model is "{config.model}": name the model that the server knows')
    window = config.window if isinstance(config, ResponseFilterConfig) else None
    plan = FilterPlan(name=name, model=config.model, then=config.then, window=window)
    if config.detector == "judge":
        for key in ("head", "threshold"):
            if getattr(config, key) is not None:
                raise ConfigError(f'{name}.{key} belongs to detector "classifier": a judge says yes or no')
        return msgspec.structs.replace(plan, prompt=_prompt(config.prompt, name))
    if config.prompt is not None:
        raise ConfigError(f'{name}.prompt belongs to detector "judge": a classifier has a head')
    if config.head is None:
        raise ConfigError(
            f"{name}.head is missing: name the file that `biasgate mitigate filter train` wrote, which detector "
            '"classifier" needs'
        )
    head = read_head(Path(config.head), f"{name}.head")
    if head.embedder != config.model:
        raise ConfigError(
            f'{name}.head {config.head} was trained on the embedder "{head.embedder}", and {name}.model is '
            f'"{config.model}": serve that embedder under that name, or train a head for this one'
        )
    threshold = head.threshold if config.threshold is None else config.threshold
    return msgspec.structs.replace(plan, head=head, threshold=threshold)


def _prompt(file: str | None, name: Name) -> str:
    if file is None:
        return PROMPTS[name]
    try:
        text = own_text(Path(file))
    except MitigationTextError as exc:
        raise ConfigError(f"{name}.prompt {file}: {exc}") from exc
    if text is None:
        raise ConfigError(f"{name}.prompt {file}: no such file")
    return text
