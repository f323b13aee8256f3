"""The section `[[mitigation]]` of the configuration."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.schema import GatewayVariable, Positive, Probability, Section
from gateway.config.sections import FeatureSection

FILTERED_ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
"""Endpoints whose answers can be filtered."""


class MatchConfig(Section, frozen=True):
    """All that is named must apply."""

    route: str | None = None
    """An endpoint that answers in text, such as /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages."""
    key: str | None = None
    """A name in `[[keys]]`."""
    model: str | None = None
    """Name after aliases; covers requests that name none."""


class QueryFilterConfig(Section, frozen=True):
    """Looks for bias in a request before it goes on."""

    base_url: str
    """OpenAI API of the detector; may be this gateway."""
    model: str
    api_key_env: GatewayVariable = None
    """Variable with the key."""
    detector: Literal["judge", "classifier"] = "judge"
    """judge: the model answers yes or no. classifier: `head` weighs its embedding."""
    prompt: str | None = None
    """Text file that defines biased text for a judge; unset: ours."""
    head: str | None = None
    """File of `mitigate filter train` for a classifier."""
    threshold: Probability | None = None
    """A classifier's probability of bias; unset: the head's."""
    then: Literal["refuse", "instruct"] = "refuse"
    """Treatment of a biased request; instruct: add `instruction` to it alone."""


class ResponseFilterConfig(QueryFilterConfig, frozen=True):
    """Looks for bias in an answer before it goes out."""

    then: Literal["refuse", "instruct"] = "refuse"
    """Treatment of a biased answer; instruct: ask again with `instruction`."""
    window: Annotated[int, Meta(ge=1, le=8_000)] = 400
    """Characters of a stream held for a check; with instruct all."""


class MitigationConfig(Section, frozen=True):
    """A policy on live requests; the first that matches holds."""

    name: str | None = None
    """Name in headers, metrics and exchanges; unset: `policy-N`."""
    match: MatchConfig = MatchConfig()
    instruction: str = "none"
    """`none`, `abstract`, `detailed` or a text file."""
    share: Probability = 1.0
    """Share of requests treated; the rest is the control arm."""
    unit: Literal["conversation", "request"] = "conversation"
    """The arm is drawn for each (docs/mitigation.md#arms)."""
    conversation_header: str | None = None
    """Header that names the conversation; else its beginning does."""
    on_timeout: Literal["pass", "refuse"] = "pass"
    """Untreatable requests pass, or are refused."""
    query_filter: QueryFilterConfig | None = None
    response_filter: ResponseFilterConfig | None = None
    timeout_seconds: Positive = 5.0
    """Longest time of a filter for a request or held part of an answer."""


NO_POLICIES: list[MitigationConfig] = []
MITIGATION = FeatureSection("mitigation", list[MitigationConfig], NO_POLICIES)
