"""The section `[[mitigation]]` of the configuration."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.schema import GatewayVariable, Positive, Probability, Section
from gateway.config.sections import FeatureSection

FILTERED_ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
"""Those of which answers can be filtered."""


class MatchConfig(Section, frozen=True):
    """All that is named must apply."""

    route: str | None = None
    """An endpoint that answers in text, such as "/v1/chat/completions"."""
    key: str | None = None
    """Name of one of [[keys]]."""
    model: str | None = None
    """The name after aliases."""


class QueryFilterConfig(Section, frozen=True):
    """Looks for bias in a request before it goes on."""

    base_url: str
    """Where the detector's model is served (OpenAI API)."""
    model: str
    api_key_env: GatewayVariable = None
    detector: Literal["judge", "classifier"] = "judge"
    """judge: `model` is asked for yes or no. classifier: `model` embeds the text, and `head` weighs the embedding."""
    prompt: str | None = None
    """Of a judge: text FILE with its instructions; unset: ours."""
    head: str | None = None
    """Of a classifier: FILE that `biasgate mitigate filter train` wrote."""
    threshold: Probability | None = None
    """Of a classifier: probability from which a text counts as biased; unset: the head's own."""
    then: Literal["refuse", "instruct"] = "refuse"
    """What becomes of a biased request. instruct: the policy's instruction is added to it, and to no other."""


class ResponseFilterConfig(QueryFilterConfig, frozen=True):
    """Looks for bias in an answer before it goes out."""

    then: Literal["refuse", "instruct"] = "refuse"
    """What becomes of a biased answer. instruct: it is asked for once more with the policy's instruction."""
    window: Annotated[int, Meta(ge=1, le=8_000)] = 400
    """Characters of a streamed answer that are held back before they are looked at."""


class MitigationConfig(Section, frozen=True):
    """A policy on live requests; the first that matches holds."""

    name: str | None = None
    """In the response header, metrics and comparisons; unset: "policy-N" by its place in the file."""
    match: MatchConfig = MatchConfig()
    instruction: str = "none"
    """Added to the request: none, abstract, detailed (the sentences of the LTF paper) or a text FILE."""
    share: Probability = 1.0
    """Of the requests that are treated, the rest is the control arm."""
    unit: Literal["conversation", "request"] = "conversation"
    """What the arm is drawn for. conversation: all turns of one are in the same arm. request: each by itself."""
    conversation_header: str | None = None
    """Whose value names the conversation, such as "x-session-id"; a request without it goes by how it began."""
    on_timeout: Literal["pass", "refuse"] = "pass"
    """What becomes of a request on which the policy cannot be carried out: passed as it is, or refused."""
    query_filter: QueryFilterConfig | None = None
    response_filter: ResponseFilterConfig | None = None
    timeout_seconds: Positive = 5.0
    """Longest that a filter may take over a request, or over what it holds back of an answer."""


NO_POLICIES: list[MitigationConfig] = []
MITIGATION = FeatureSection("mitigation", list[MitigationConfig], NO_POLICIES)
