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
    """An endpoint that answers in text, such as "/v1/chat/completions"."""
    key: str | None = None
    """Name of a key in [[keys]]."""
    model: str | None = None
    """The name after aliases."""


class QueryFilterConfig(Section, frozen=True):
    """Looks for bias in a request before it goes on."""

    base_url: str
    """Address at which the detector's model is served (OpenAI API)."""
    model: str
    api_key_env: GatewayVariable = None
    detector: Literal["judge", "classifier"] = "judge"
    """judge: `model` is asked for yes or no. classifier: `model` embeds the text, and `head` weighs the embedding."""
    prompt: str | None = None
    """Instructions of a judge, a text FILE; unset: ours."""
    head: str | None = None
    """Head of a classifier, a FILE that `biasgate mitigate filter train` wrote."""
    threshold: Probability | None = None
    """Threshold of a classifier: probability from which a text counts as biased; unset: the head's own."""
    then: Literal["refuse", "instruct"] = "refuse"
    """Treatment of a biased request. instruct: the policy's instruction is added to it, and to no other."""


class ResponseFilterConfig(QueryFilterConfig, frozen=True):
    """Looks for bias in an answer before it goes out."""

    then: Literal["refuse", "instruct"] = "refuse"
    """Treatment of a biased answer. instruct: it is asked for once more with the policy's instruction."""
    window: Annotated[int, Meta(ge=1, le=8_000)] = 400
    """Characters of a streamed answer that are held back before they are looked at."""


class MitigationConfig(Section, frozen=True):
    """A policy on live requests; the first that matches holds."""

    name: str | None = None
    """Name in the response header, metrics and comparisons; unset: "policy-N" by its place in the file."""
    match: MatchConfig = MatchConfig()
    instruction: str = "none"
    """Added to the request: none, abstract, detailed (the sentences of the LTF paper) or a text FILE."""
    share: Probability = 1.0
    """Share of the requests that are treated, the rest is the control arm."""
    unit: Literal["conversation", "request"] = "conversation"
    """Unit that the arm is drawn for. conversation: all turns are in one arm. request: each by itself."""
    conversation_header: str | None = None
    """Header whose value names the conversation, such as "x-session-id"; a request without it goes by how it began."""
    on_timeout: Literal["pass", "refuse"] = "pass"
    """Treatment of a request on which the policy cannot be carried out: passed as it is, or refused."""
    query_filter: QueryFilterConfig | None = None
    response_filter: ResponseFilterConfig | None = None
    timeout_seconds: Positive = 5.0
    """Longest that a filter may take over a request, or over what it holds back of an answer."""


NO_POLICIES: list[MitigationConfig] = []
MITIGATION = FeatureSection("mitigation", list[MitigationConfig], NO_POLICIES)
