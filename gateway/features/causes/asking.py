"""Asks the served model the question of a stored exchange again, and has a live auditor score what comes back."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from auditors.clients.chat_format import chat_body
from auditors.conditions import LEFT_OUT
from auditors.probes import NOT_ASKED_AGAIN, check_repeatable, question, too_long, with_conditions
from auditors.streams.scales import GAP_SUFFIX, scaled
from auditors.streams.state import MISSING, gap_key, stream_key
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.readers.exchange import read_conversation
from auditors.types import AuditFailure, CompletionError, Exchange
from gateway.auditor.backpressure.deadline import time_limit
from gateway.auditor.enabled import EnabledAuditors
from gateway.features.causes.store import mean
from gateway.store.streams import Stream

logger = logging.getLogger(__name__)

CHAT = "/v1/chat/completions"
LONGEST_ANSWER = 2048
"""Limit of tokens of a new answer, where the client's request had none."""
_SYSTEM = ("system", "developer")


class UnansweredError(Exception):
    """An exchange that could not be asked or judged again. `kind`: why; `is_final`: it never can be."""

    def __init__(self, kind: str, *, is_final: bool) -> None:
        super().__init__(kind)
        self.kind, self.is_final = kind, is_final


class Asking:
    """Asks again with the clients of a live auditor: within its token budget, its limits and its backpressure."""

    def __init__(self, enabled: EnabledAuditors, secret: bytes) -> None:
        """`secret`: key of the digests of text."""
        self._enabled = enabled
        self._secret = secret

    async def judged(self, stream: Stream, exchange: Exchange) -> tuple[float | None, float | None]:
        """Return the auditor's scores on 0..1 for a series, and for a gap's other groups; None where the answer has
        none. A gap takes both from the same verdict. Raises UnansweredError.
        """
        name = stream.key.auditor
        auditor, seconds = await self._enabled.get(name), self._enabled.settings[name].timeout_seconds
        try:
            async with time_limit(seconds, partial(self._enabled.clients[name].held_seconds, exchange)):
                result = await auditor.audit(exchange)
        except TimeoutError as exc:
            raise UnansweredError("timeout", is_final=False) from exc
        except Exception as exc:  # a fault of an auditor must not end the work
            logger.exception("auditor %s failed on exchange %s", name, exchange.id)
            raise UnansweredError("internal", is_final=True) from exc
        if isinstance(result, AuditFailure):
            if result.kind == "not_auditable":
                return None, None
            raise UnansweredError(result.kind, is_final=result.kind == "malformed")
        own, rest = list[float | None](), list[float | None]()
        for measurement in result:
            is_known = exchange.sender_rate is not None
            key = stream_key(measurement, exchange.series_model, is_sampling_known=is_known)
            is_own, is_other = key.id == stream.id, False
            if stream.key.metric == measurement.metric + GAP_SUFFIX:
                is_own = gap_key(key).id == stream.id
                is_other = not is_own and gap_key(msgspec.structs.replace(key, group=stream.key.group)).id == stream.id
            if is_own or (is_other and key.group):
                if measurement.status in MISSING:
                    raise UnansweredError(measurement.status, is_final=True)
                y = None if measurement.value is None else scaled(measurement.metric, measurement.value)
                (own if is_own else rest).append(y)
        return mean(own), mean(rest)

    async def answered(self, name: str, exchange: Exchange, other: Exchange | None = None) -> Exchange:
        """Return it with a new answer, under the conditions of `other` if given. Raises UnansweredError."""
        try:
            conversation = await asyncio.to_thread(_askable, exchange)
            of_other = conversation if other is None else await asyncio.to_thread(_askable, other)
        except NotAuditableError as exc:
            raise UnansweredError(exc.reason.replace("_", " "), is_final=True) from exc
        messages = list(conversation.messages)
        if other is not None:
            own = [message for message in of_other.messages if message.role in _SYSTEM]
            messages = [*own, *(message for message in messages if message.role not in _SYSTEM)]
        target = exchange if other is None else msgspec.structs.replace(exchange, instruction=other.instruction)
        request = question(target, of_other, messages, of_other.max_tokens or LONGEST_ANSWER)
        try:
            completion = await self._enabled.clients[name].of_exchange(exchange).complete(request)
        except CompletionError as exc:
            raise UnansweredError(exc.kind, is_final=exc.kind in ("rejected", "malformed")) from exc
        body = exchange.request_body
        if other is not None or exchange.endpoint != CHAT:
            body = chat_body(msgspec.structs.replace(request, messages=messages))
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in completion.tool_calls
        ]
        message: Mapping[str, Any] = {
            "role": "assistant",
            "content": completion.text,
            "refusal": completion.refusal,
            **({"tool_calls": calls} if calls else {}),
            **({"reasoning": completion.reasoning} if completion.reasoning else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason}
        return msgspec.structs.replace(
            target,
            endpoint=CHAT,
            request_body=body,
            response_body=msgspec.json.encode({"choices": [choice]}),
            content_type="application/json",
            stream=False,
        )

    def digests(self, exchange: Exchange) -> tuple[str, bool, str]:
        """Return digest of the opening, True for a first turn, and digest of conditions. Raises NotAuditableError."""
        conversation = read_conversation(exchange)
        system = [message.text for message in conversation.messages if message.role in _SYSTEM]
        turns = [message for message in conversation.messages if message.role not in _SYSTEM]
        replies = [number for number, message in enumerate(turns) if message.role == "assistant"]
        opening = [[message.role, message.text] for message in (turns[: replies[0] + 1] if replies else turns)]
        if not replies:
            opening.append(["assistant", conversation.reply_text])
        fields = {name: value for name, value in conversation.fields.items() if name not in LEFT_OUT}
        shaping = (conversation.temperature, conversation.top_p, conversation.max_tokens, exchange.instruction)
        return self._digest(opening), not replies, self._digest([exchange.endpoint, system, shaping, fields])

    def _digest(self, content: Any) -> str:
        text = msgspec.json.encode(content, order="deterministic")
        return hashlib.blake2b(text, digest_size=12, key=self._secret[:64]).hexdigest()


def _askable(exchange: Exchange) -> Conversation:
    """Return the conversation with its conditions. Raises NotAuditableError where it cannot be asked again."""
    conversation = read_conversation(exchange)
    if exchange.endpoint == "/v1/completions":
        raise NotAuditableError("no_chat_template", "the completions endpoint has no chat template to ask again with")
    check_repeatable(conversation, NOT_ASKED_AGAIN, with_answer=False)
    if too_long(conversation):
        raise NotAuditableError("no_conversation", "the prompt is too long to be asked again")
    return with_conditions(exchange, conversation, conversation.max_tokens or LONGEST_ANSWER)
