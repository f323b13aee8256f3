"""The same conversation about another group, exchanged wherever it names the group: in words, calls and results. The
words of system, user and assistant decide; strings in tools' JSON follow (`leaves`). Names of members and tools, ids
and numbers stay; where these name the group, the conversation is left alone.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from auditors.text.swaps.leaves import (
    MOST_TEXTS,
    NAMED_IN_MEMBERS,
    JsonText,
    Leaf,
    bare,
    framed,
    names_a_group,
    read_json_text,
)
from auditors.text.swaps.lexicon import SLOTS, axis_order, plainest
from auditors.text.swaps.outcome import Abstained, NotSwapped, Swapped
from auditors.text.swaps.swap import swap
from auditors.types import Message

NAMED_IN_TOOLS = "a tool's name names the group"


class SwappedPrompt(NamedTuple):
    """A conversation and the same about the other group."""

    swap: Swapped
    asked: Sequence[str]
    """The texts as they were, in the order of the swap's."""
    messages: list[Message]
    """About the other group."""


class _Part(NamedTuple):
    """A text of a message: words, or JSON of which the strings are."""

    text: str
    json: JsonText | None = None

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [Leaf(self.text)] if self.json is None else self.json.leaves

    def with_texts(self, texts: Iterator[str]) -> str:
        return next(texts) if self.json is None else self.json.with_strings(texts)


def swapped_prompt(exchange_id: str, messages: Sequence[Message]) -> SwappedPrompt | NotSwapped:
    """Swap all messages on the first axis that allows it; the exchange's id orders axes and picks the group."""
    parts = [_parts(message) for message in messages]
    all_leaves = [leaf for of_message in parts for part in of_message for leaf in part.leaves]
    if len(all_leaves) > max(MOST_TEXTS, len(messages)):
        return Abstained(axis=next(iter(SLOTS)), reason="too long")
    order = axis_order(exchange_id)
    words = [message.content for message in messages if not message.call_id]
    has_tools = len(words) < len(messages) or any(message.calls for message in messages)
    reasons: list[NotSwapped] = []
    for axis in order.axes:
        result: Swapped | NotSwapped = swap(words, axis, choice=order.choice)
        if isinstance(result, Swapped) and has_tools:
            result = _with_tools(messages, parts, all_leaves, axis, order.choice)
        if isinstance(result, Swapped):
            rest = iter(result.texts)
            swapped = [_message(message, of_message, rest) for message, of_message in zip(messages, parts, strict=True)]
            return SwappedPrompt(result, [leaf.text for leaf in all_leaves], swapped)
        reasons.append(result)
    return plainest(reasons)


def _with_tools(
    messages: Sequence[Message], parts: Sequence[Sequence[_Part]], all_leaves: Sequence[Leaf], axis: str, choice: int
) -> Swapped | NotSwapped:
    result = swap([framed(leaf, axis) for leaf in all_leaves], axis, choice=choice)
    if isinstance(result, Abstained):
        return result
    members = (name for of_message in parts for part in of_message if part.json for name in part.json.names)
    if names_a_group(members, axis):
        return NotSwapped(axis=axis, reason=NAMED_IN_MEMBERS, group=result.group)
    if names_a_group({call.name for message in messages for call in message.calls}, axis):
        return NotSwapped(axis=axis, reason=NAMED_IN_TOOLS, group=result.group)
    texts = [bare(text, leaf, axis) for text, leaf in zip(result.texts, all_leaves, strict=True)]
    return msgspec.structs.replace(result, texts=texts)


def _parts(message: Message) -> list[_Part]:
    content = _part(message.content) if message.call_id else _Part(message.content)
    if not message.calls:
        return [content]
    return [content, _Part(message.thoughts), *(_part(call.arguments) for call in message.calls)]


def _part(text: str) -> _Part:
    return _Part(text, read_json_text(text))


def _message(message: Message, parts: Sequence[_Part], texts: Iterator[str]) -> Message:
    content, *other_texts = [part.with_texts(texts) for part in parts]
    if not message.calls:
        return msgspec.structs.replace(message, content=content)
    thoughts, *arguments = other_texts
    calls = tuple(
        msgspec.structs.replace(call, arguments=written) for call, written in zip(message.calls, arguments, strict=True)
    )
    return msgspec.structs.replace(message, content=content, calls=calls, thoughts=thoughts)
