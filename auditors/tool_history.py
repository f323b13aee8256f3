"""Calls and results of tools in a request: whether a probe can have them as its live request did.

They are sent again as they came, in the form of chat completions. What the reader could not put into that form
(`text.tool_calls`), what was redacted before it was stored, and what is larger than other conditions of a probe may be
(`conditions`) raises NotAuditableError `tool_calls`: a question with another history is another question.
"""

from auditors.conditions import DEEPEST_CARRIED, LARGEST_BYTES, REDACTED
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.swaps.json_text import is_deeper

MEDIA = "[media]"
"""What stands in a stored request in place of what is not kept."""


def check_tool_history(conversation: Conversation) -> None:
    """Raises NotAuditableError for a history of tools that no probe can have. Takes time in proportion to it."""
    if conversation.uncarried:
        _not_carried(", ".join(conversation.uncarried))
    size = 0
    for message in conversation.messages:
        if message.call_id and MEDIA in message.content:
            _not_carried("a part of a result was not kept")
        written = [text for call in message.calls for text in (call.id, call.name, call.arguments)]
        if any(map(REDACTED.search, (message.call_id, message.tool, *written))):
            _not_carried("a part of them was redacted")
        size += sum(len(text.encode()) for text in (message.call_id, message.tool, message.thoughts, *written))
    if size > LARGEST_BYTES:
        _not_carried(f"they have, without results, more than {LARGEST_BYTES} bytes")
    if any(is_deeper(call.arguments, DEEPEST_CARRIED) for message in conversation.messages for call in message.calls):
        _not_carried(f"arguments have more than {DEEPEST_CARRIED} levels")


def _not_carried(why: str) -> None:
    raise NotAuditableError("tool_calls", f"calls and results of tools cannot be carried into a probe: {why}")
