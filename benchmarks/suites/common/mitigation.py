"""Mitigation prompts: a sentence added to every question that asks the model not to stereotype (protocols 2.10)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from auditors.text.mitigations import (
    FILE_PREFIX,
    NAMES,
    NONE,
    TEXTS,
    MitigationTextError,
    category,
    file_name,
    own_text,
)
from auditors.text.nearest_word import nearest
from auditors.types import Message
from benchmarks.errors import BenchmarkError
from benchmarks.suites.protocol import Item

__all__ = ["NAMES", "NONE", "TEXTS", "category", "file_name"]  # of auditors.text.mitigations, for importers of this


class Mitigation(msgspec.Struct, frozen=True):
    """The text added to the questions of a run."""

    name: str = NONE
    """One of NAMES, or "file:" and the first 12 hex digits of the sha256 of `text`."""
    text: str | None = None
    """The user's own text; None for a name."""


def find(requested: str) -> Mitigation:
    """Return the mitigation of a name, or of a UTF-8 text file, stripped. Raises BenchmarkError for an unfit file."""
    if requested in NAMES:
        return Mitigation(requested)
    try:
        text = own_text(Path(requested))
    except MitigationTextError as exc:
        raise BenchmarkError(f"mitigation {requested}: {exc}") from exc
    if text is None:
        raise BenchmarkError(
            f'mitigation "{requested}" is neither a file nor one of {", ".join(NAMES)}{nearest(requested, NAMES)}'
        )
    return Mitigation(file_name(text), text)


def demand_known(mitigation: Mitigation) -> None:
    """Raises BenchmarkError unless the name is one of NAMES, or that of the text."""
    name, text = mitigation.name, mitigation.text
    if (name in NAMES) if text is None else (name == file_name(text)):
        return
    if name.startswith(FILE_PREFIX):
        raise BenchmarkError(f'mitigation "{name}" comes without its text: give the file again with --mitigation FILE')
    raise BenchmarkError(f'mitigation "{name}" is not offered{nearest(name, NAMES)}; offered: {", ".join(NAMES)}')


def sentence(mitigation: Mitigation, axis: str) -> str:
    """Return the text for questions of an axis; empty without mitigation. A user's own text has no slots."""
    if mitigation.text is not None:
        return mitigation.text
    return "" if mitigation.name == NONE else TEXTS[mitigation.name].format(category=category(axis))


def placed(items: Iterable[Item], mitigation: Mitigation) -> Iterator[Item]:
    """Items with the sentence before the text of the last user message, "at the beginning of the input"."""
    for item in items:
        added = sentence(mitigation, item.axis)
        yield msgspec.structs.replace(item, messages=before_question(item.messages, added)) if added else item


def before_question(messages: tuple[Message, ...], added: str) -> tuple[Message, ...]:
    """Return messages with `added` as a line before the last user message's text. Raises ValueError without any."""
    at = max((index for index, message in enumerate(messages) if message.role == "user"), default=None)
    if at is None:
        raise ValueError("a mitigation needs a user message to stand before")
    question = msgspec.structs.replace(messages[at], content=f"{added}\n{messages[at].content}")
    return (*messages[:at], question, *messages[at + 1 :])
