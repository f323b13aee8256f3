"""The configuration of a filter, with the texts and numbers of its files: ready to be built."""

from pathlib import Path
from typing import Literal

import msgspec

from auditors.text.mitigations import MitigationTextError, own_text
from gateway.errors import ConfigError
from gateway.features.mitigation.config import QueryFilterConfig, ResponseFilterConfig
from gateway.features.mitigation.filter_head import Head, read_head

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
    """A classifier's; None for a judge."""
    threshold: float | None = None
    window: int | None = None
    """See `ResponseFilterConfig.window`."""


def plan_of(config: QueryFilterConfig | None, name: Name) -> FilterPlan | None:
    """Return the plan of a filter; None without a filter. Raises ConfigError for settings that do not go together, or a
    file that cannot be used.
    """
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
