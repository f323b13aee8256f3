"""Models that think before they answer: the setting `off`, `on`, `budget=N` (tokens) or `default`, and its forms."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from auditors.text.thoughts import split
from auditors.types import Completion

DEFAULT_BUDGET = 4096
"""Tokens left for the thoughts of a model that thinks where no budget is set."""
LARGEST_BUDGET = 1_000_000
CLOSING_TOKENS = 32
"""Tokens for the words with which a server ends a thought that has used up its budget."""

OWNED_FIELDS = frozenset({"model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"})
"""Fields of a request that belong to who asks, and no user's own can replace."""

Mode = Literal["default", "off", "on", "budget"]
Field = Literal["reasoning", "reasoning_content", "text", "begun"]
"""Place of a reply's thoughts: a field of the message; or its text, between marks or from its beginning to a mark."""


class Thinking(msgspec.Struct, frozen=True):
    """Setting for a model to think, or not to think, before it answers."""

    mode: Mode = "default"
    budget: int | None = None
    """Most tokens of thought, in mode "budget"."""

    def __str__(self) -> str:
        return f"budget={self.budget}" if self.mode == "budget" else self.mode

    @property
    def room(self) -> int:
        """Tokens that a reply needs in addition to its answer if its model thinks."""
        if self.mode == "off":
            return 0
        return DEFAULT_BUDGET if self.budget is None else self.budget + CLOSING_TOKENS


DEFAULT = Thinking()
OFF = Thinking("off")


def parse_thinking(text: str) -> Thinking:
    """The setting that is written so. Raises ValueError, one line that says what may be written."""
    word, equals, number = text.strip().partition("=")
    if not equals and (mode := _WITHOUT_BUDGET.get(word)):
        return Thinking(mode)
    if word == "budget" and number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= LARGEST_BUDGET:
        return Thinking("budget", int(number))
    raise ValueError(
        f'thinking "{text[:50]}" is not known: write off, on, default or budget=N '
        f"(tokens of thought, from 1 to {LARGEST_BUDGET})"
    )


def forms(thinking: Thinking) -> Sequence[Mapping[str, Any]]:
    """Fields that may carry the setting, in the order to try: template variable, effort (least: "low"), none."""
    match thinking.mode:
        case "off":
            switch = _switched(is_on=False)
            none = {"reasoning_effort": "none"}
            return (switch, {**switch, **none}, none, {"reasoning_effort": "low"}, {})
        case "on":
            switch, some = _switched(is_on=True), {"reasoning_effort": "medium"}
            return (switch, {**switch, **some}, some, {})
        case "budget":
            switch, most = _switched(is_on=True), {"thinking_token_budget": thinking.budget}
            return ({**switch, **most}, most, switch, {})
        case "default":
            return ({},)


def merged(fields: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request with a client's own, which win; `chat_template_kwargs` variable by variable."""
    joined = {**fields, **own}
    kwargs, own_kwargs = fields.get("chat_template_kwargs"), own.get("chat_template_kwargs")
    if isinstance(kwargs, Mapping) and isinstance(own_kwargs, Mapping):
        joined["chat_template_kwargs"] = {**kwargs, **own_kwargs}
    return joined


class Thoughts(NamedTuple):
    """Thoughts that a server tells apart, and their field."""

    text: str
    field: Field


def reasoning_in(message: Mapping[str, Any]) -> Thoughts | None:
    """The thoughts that a server tells apart in a message, or in the delta of a stream's chunk, and their field."""
    for name in _FIELDS:
        if isinstance(thoughts := message.get(name), str) and thoughts:
            return Thoughts(thoughts, name)
    return None


def reasoning_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Tokens of thought that a server counted; None where it does not say."""
    details = (usage or {}).get("completion_tokens_details")
    tokens = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


def told_apart(completion: Completion, *, is_begun: bool = False) -> Completion:
    """The reply with the thoughts in its text, if any, moved to `reasoning`. `is_begun`: see `thoughts.split`."""
    if not completion.text:
        return completion
    parts = split(completion.text, is_begun=is_begun and completion.reasoning is None)
    if parts.thoughts is None:
        return completion
    reasoning = "\n".join(part for part in (completion.reasoning, parts.thoughts) if part)
    field = completion.reasoning_field or ("begun" if parts.is_begun_before else "text")
    return msgspec.structs.replace(completion, text=parts.answer, reasoning=reasoning, reasoning_field=field)


def is_exhausted(completion: Completion) -> bool:
    """Return whether a reply, told apart, ended by its length within the thoughts, so that it has no answer to read."""
    if completion.finish_reason != "length" or (completion.text or "").strip() or completion.refusal:
        return False
    return completion.reasoning is not None or bool(reasoning_tokens(completion.usage))


_WITHOUT_BUDGET: Mapping[str, Mode] = {"default": "default", "off": "off", "on": "on"}
_TEMPLATE_NAMES = ("enable_thinking", "thinking")
_FIELDS: tuple[Literal["reasoning"], Literal["reasoning_content"]] = ("reasoning", "reasoning_content")


def _switched(*, is_on: bool) -> dict[str, Any]:
    return {"chat_template_kwargs": dict.fromkeys(_TEMPLATE_NAMES, is_on)}
