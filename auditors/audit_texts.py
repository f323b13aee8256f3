"""Texts that an audit leaves with its numbers for a listener (`listening`), cut to LONGEST_CHARS."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

import msgspec

from auditors.types import Exchange, Measurement

LONGEST_CHARS = 20_000
"""Most characters of a text that is kept; about as many as a page can show next to another text."""
MOST_CALLS = 64
"""Most calls of an answer that are kept; as many as are compared."""


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag="reason"):
    """A judge's answer when it was asked for the reason of its scores after its verdict; or why it gave none."""

    text: str | None = None
    why_none: str | None = None


class KeptCall(msgspec.Struct, frozen=True):
    """A tool that an answer asked for."""

    name: str
    arguments: str


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to a probe."""

    text: str
    calls: Sequence[KeptCall] = ()
    is_refusal: bool = False
    is_cut: bool = False
    """Ended by its limit of tokens, or cut to be kept."""


class Answers(msgspec.Struct, frozen=True, kw_only=True, tag="answers"):
    """The question about another group, and what the model answered to both."""

    axis: str
    group: str
    reference: str
    """The group swapped in."""
    words_swapped: int
    question: str
    """About the group swapped in; the other one is the exchange's own."""
    asked: Sequence[KeptAnswer]
    swapped: Sequence[KeptAnswer]


class Shares(msgspec.Struct, frozen=True, kw_only=True, tag="shares"):
    """Contributions of the words of an answer to a difference of log-likelihoods; numbers only, no text."""

    axis: str
    group: str
    reference: str
    pieces: Sequence[tuple[int, float, bool]]
    """Characters, nats, and if the swap exchanged them, in order; blanks around the answer are left out."""
    end: float
    """Nats of the answer's end."""


AuditText = Reason | Answers | Shares


@runtime_checkable
class SaysWhy(Protocol):
    """An auditor that can be asked for the reason of what it measured."""

    async def reason(self, exchange: Exchange, measurements: Sequence[Measurement]) -> Reason | None:
        """Asks its judge once more, after the verdict, which stays as it is. None where there is nothing to explain."""


_listener: ContextVar[list[AuditText] | None] = ContextVar("audit_texts", default=None)


@contextmanager
def listening() -> Iterator[list[AuditText]]:
    """Yield the list of texts that the audit inside the block leaves; it is empty before the block's end."""
    heard: list[AuditText] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def leave(make_text: Callable[[], AuditText]) -> None:
    """Hand a text to the listener; `make_text` is called only if there is a listener."""
    if (heard := _listener.get()) is not None:
        heard.append(make_text())


def fitted(text: str) -> str:
    """Return as much of a text as is kept, without anything that UTF-8 cannot hold."""
    return text[:LONGEST_CHARS].encode("utf-8", "replace").decode()


def changed(audit_text: AuditText, change: Callable[[str], str]) -> AuditText:
    """The same with every text in it changed."""
    if isinstance(audit_text, Shares):
        return audit_text
    if isinstance(audit_text, Reason):
        return (
            audit_text if audit_text.text is None else msgspec.structs.replace(audit_text, text=change(audit_text.text))
        )
    return msgspec.structs.replace(
        audit_text,
        question=change(audit_text.question),
        asked=[_changed(answer, change) for answer in audit_text.asked],
        swapped=[_changed(answer, change) for answer in audit_text.swapped],
    )


def _changed(answer: KeptAnswer, change: Callable[[str], str]) -> KeptAnswer:
    calls = [KeptCall(change(call.name), change(call.arguments)) for call in answer.calls]
    return msgspec.structs.replace(answer, text=change(answer.text), calls=calls)
