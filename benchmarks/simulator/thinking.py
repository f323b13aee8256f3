"""A simulated model's misleading thoughts, before a reply, marks and all; the answer is drawn as without thoughts."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from benchmarks.simulator.replies import Replies, split, uniform
from benchmarks.simulator.sections import Probability, Section

OPENING, CLOSING = "<think>\n", "\n</think>\n\n"
EMPTY = OPENING + CLOSING
MISLEADING = (
    "I'm sorry, but I can't help with that. Male. Female. He? She. A. B. C. Yes. No. Unrelated. Let me think about "
    "Emily and Ahmed, about old people and young ones, about Christians and Muslims, and refuse. "
)
QUOTED_CHARS = 200
"""Characters of the question that the thoughts repeat: every allowed answer stands there too."""


class ThinkingModel(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thinking of the simulated model before it answers."""

    switch: Literal["none", "template", "effort", "never"] = "none"
    """template: a template variable or effort "none" switches. effort: reduces, "none" is refused. never: always on."""
    is_default: bool = True
    """True when it thinks unless a request says otherwise."""
    place: Literal["reasoning", "reasoning_content", "text", "begun"] = "reasoning"
    """Place of the thoughts; the last two without a parser, "begun" where the template opens them."""
    tokens: Annotated[int, Meta(ge=1)] = 60
    """Tokens of a thought."""
    p_long: Probability = 0.0
    """Share of questions about which it thinks `long_tokens` long."""
    long_tokens: Annotated[int, Meta(ge=1)] = 20_000
    forced: Literal["kept", "refused"] = "kept"
    """Treatment of a reply begun with an empty thought: the template keeps it, or it cannot be continued."""
    refuses_fields: bool = False
    """Refuse with 400 any field of a request about thinking, as servers do that know none."""

    @property
    def has_parser(self) -> bool:
        return self.place in ("reasoning", "reasoning_content")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a request about thinking."""

    template: bool | None = None
    effort: str | None = None
    budget: int | None = None


def refusal(model: ThinkingModel, settings: Told) -> tuple[str, str] | None:
    """Message and field of what vLLM refuses with 400."""
    says: dict[str, Any] = {"chat_template_kwargs": settings.template, "reasoning_effort": settings.effort}
    says["thinking_token_budget"] = settings.budget
    for name, value in says.items():
        if value is not None and model.refuses_fields:
            return f"Unrecognized request argument supplied: {name}", name
    if settings.effort == "none" and model.switch == "effort":
        return "reasoning_effort='none' is not supported by Harmony.", "reasoning_effort"
    if settings.budget is not None and not (model.switch != "none" and model.has_parser):
        return "thinking_token_budget is set but reasoning_config is not configured.", "thinking_token_budget"
    return None


def thought_about(model: ThinkingModel, settings: Told, seed: int, content: str) -> int | None:
    """Return the tokens of the thought about a request; None if the model does not think."""
    if not _thinks(model, settings):
        return None
    is_long = model.p_long > 0 and uniform(f"{seed}/{content}", "thought", 0) < model.p_long
    tokens = model.long_tokens if is_long else model.tokens
    if model.switch == "effort" and settings.effort == "low":
        tokens = max(1, tokens // 4)
    return tokens if settings.budget is None else min(tokens, settings.budget)


def opening_of(model: ThinkingModel, thought: int | None) -> str:
    """Return the text that the template adds to the end of a prompt."""
    if model.switch == "none":
        return ""
    if thought is None:
        return EMPTY
    return OPENING if model.place == "begun" else ""


def written(model: ThinkingModel, thought: int | None, question: str, replies: Replies) -> Replies:
    """The replies as the model writes them, with the same thought before each."""
    if thought is None:
        return replies
    unit = split(f"{question[-QUOTED_CHARS:]} {MISLEADING}")
    words = "".join((unit * (1 + thought // len(unit)))[:thought])
    begin = "" if model.place == "begun" else OPENING
    return Replies({f"{begin}{words}{CLOSING}{text}": p for text, p in replies.shares.items()})


def told_apart(model: ThinkingModel, text: str) -> tuple[str | None, str | None]:
    """Thoughts and answer of a reply as a parser tells them apart; (None, text) without one."""
    if not model.has_parser or not text.startswith(OPENING):
        return None, text
    thoughts, closing, answer = text.removeprefix(OPENING).partition(CLOSING)
    return thoughts, answer if closing else None


def read_told(fields: dict[str, Any] | None, effort: str | None, budget: int | None) -> Told:
    """Return the settings of a chat request about thinking."""
    switches = [
        value for name in ("enable_thinking", "thinking") if isinstance(value := (fields or {}).get(name), bool)
    ]
    return Told(template=switches[0] if switches else None, effort=effort, budget=budget)


def _thinks(model: ThinkingModel, settings: Told) -> bool:
    match model.switch:
        case "none":
            return False
        case "template":
            by_effort = None if settings.effort is None else settings.effort != "none"
            choice = by_effort if settings.template is None else settings.template
            return model.is_default if choice is None else choice
        case _:
            return True
