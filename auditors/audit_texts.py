"""What an audit may leave in words beside its numbers: why a judge scored so, what a model answered about both groups.

No number hangs on it. Whoever wants it listens (`listening`) while an audit runs; else nothing is made. All of it is
what models wrote, each text cut to LONGEST_CHARS.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

import msgspec

from auditors.types import Exchange, Measurement

LONGEST_CHARS = 20_000
"""Of one text that is kept; about what a page can show beside another."""
MOST_CALLS = 64
"""Of one answer; as many as are compared."""


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag="reason"):
    """What a judge said when it was asked, after its verdict, why it scored so; or why it said nothing."""

    text: str | None = None
    why_none: str | None = None
    """In our own words."""


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


AuditText = Reason | Answers


@runtime_checkable
class SaysWhy(Protocol):
    """An auditor that can be asked for the reason of what it measured."""

    async def reason(self, exchange: Exchange, found: Sequence[Measurement]) -> Reason | None:
        """Asks its judge once more, after the verdict, which stays as it is. None where there is nothing to explain."""
        ...


_listener: ContextVar[list[AuditText] | None] = ContextVar("audit_texts", default=None)


@contextmanager
def listening() -> Iterator[list[AuditText]]:
    """What the audit inside the block leaves; empty before its end."""
    heard: list[AuditText] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def leave(made: Callable[[], AuditText]) -> None:
    """For whoever listens; `made` is called only then."""
    if (heard := _listener.get()) is not None:
        heard.append(made())


def fitted(text: str) -> str:
    """As much of a text as is kept, and nothing that UTF-8 cannot hold."""
    return text[:LONGEST_CHARS].encode("utf-8", "replace").decode()


def changed(one: AuditText, change: Callable[[str], str]) -> AuditText:
    """The same with every text in it changed."""
    if isinstance(one, Reason):
        return one if one.text is None else msgspec.structs.replace(one, text=change(one.text))
    return msgspec.structs.replace(
        one,
        question=change(one.question),
        asked=[_changed(answer, change) for answer in one.asked],
        swapped=[_changed(answer, change) for answer in one.swapped],
    )


def _changed(one: KeptAnswer, change: Callable[[str], str]) -> KeptAnswer:
    calls = [KeptCall(change(call.name), change(call.arguments)) for call in one.calls]
    return msgspec.structs.replace(one, text=change(one.text), calls=calls)
