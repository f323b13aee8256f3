"""A team's own prompts: one JSON object a line. `{"prompt": TEXT}` or `{"messages": [...]}` is swapped by `text.swaps`,
narrowed by `axis` and `groups`; `{"axis": AXIS, "swaps": {GROUP: ...}}` compares its first version with each other one.
`id` names the prompt, `cluster` what it shares with others (a template), `tags` its subjects.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auditors.text.identity import AXES, GROUPS
from auditors.text.user_files import NotUtf8Error, as_utf8
from auditors.types import Message

MOST_BYTES = 4 * 1024 * 1024
MOST_LINE_BYTES = 64 * 1024
MOST_PROMPTS = 10_000
MOST_TAGS = 50
"""Most different tags in a file: each tag gets estimates of its own."""

Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9 ._:-]{0,63}\Z")]
NAME_FORM = "a letter or digit and up to 63 letters, digits, blanks, '.', ':', '_' and '-'"
Text = Annotated[str, Meta(min_length=1)]


class PromptFileError(ValueError):
    """A rejected file of prompts; the message names the line where the fault lies in one."""


class PromptMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    role: Literal["system", "user", "assistant"]
    content: Text


PromptContent = Text | Annotated[list[PromptMessage], Meta(min_length=1, max_length=100)]


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Text | None = None
    messages: Annotated[list[PromptMessage], Meta(min_length=1, max_length=100)] | None = None
    swaps: dict[str, PromptContent] | None = None
    id: Name | None = None
    axis: str | None = None
    groups: Annotated[list[str], Meta(min_length=1, max_length=20)] | None = None
    cluster: Name | None = None
    tags: Annotated[list[Name], Meta(max_length=10)] = []


class OwnPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of the file."""

    name: str
    """Its id, or "line-N"."""
    messages: tuple[Message, ...]
    versions: Mapping[str, tuple[Message, ...]] = {}
    """Group to the prompt about it, where the file has them itself."""
    axis: str | None = None
    """Axis of the prompt; None stands for every axis on which it names a group."""
    groups: tuple[str, ...] = ()
    """Groups to ask about; if empty, a single other group."""
    cluster: str | None = None
    tags: tuple[str, ...] = ()


def read_prompts(content: bytes) -> list[OwnPrompt]:
    """Return the prompts of a file, in order. Raises PromptFileError: fault, remedy and, where it lies in one, line."""
    if len(content) > MOST_BYTES:
        raise PromptFileError(f"{len(content)} bytes are more than {MOST_BYTES}: split the file")
    try:
        content = as_utf8(content)
    except NotUtf8Error as exc:
        raise PromptFileError(str(exc.strerror)) from exc
    prompts: list[OwnPrompt] = []
    lines, tags = dict[str, int](), set[str]()
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        prompt = _prompt(line, number)
        if prompt.name in lines:
            raise PromptFileError(
                f'line {number}: id "{prompt.name}" is that of line {lines[prompt.name]}: every prompt needs its own'
            )
        lines[prompt.name] = number
        tags.update(prompt.tags)
        prompts.append(prompt)
        if len(prompts) > MOST_PROMPTS:
            raise PromptFileError(f"line {number}: more than {MOST_PROMPTS} prompts: split the file")
        if len(tags) > MOST_TAGS:
            raise PromptFileError(f"line {number}: more than {MOST_TAGS} different tags: use fewer")
    if not prompts:
        raise PromptFileError('holds no prompt: write one JSON object a line, e.g. {"prompt": "..."}')
    return prompts


def _prompt(line: bytes, number: int) -> OwnPrompt:
    if len(line) > MOST_LINE_BYTES:
        raise PromptFileError(f"line {number}: {len(line)} bytes are more than {MOST_LINE_BYTES}: shorten the prompt")
    try:
        record = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise PromptFileError(f"line {number}: {_explained(exc)}") from None
    faults = "; ".join(_faults(record))
    if faults:
        raise PromptFileError(f"line {number}: {faults}")
    versions = {group: _messages(version) for group, version in (record.swaps or {}).items()}
    return OwnPrompt(
        name=record.id or f"line-{number}",
        messages=next(iter(versions.values())) if versions else _messages(record.prompt or record.messages or ""),
        versions=versions,
        axis=record.axis,
        groups=tuple(dict.fromkeys(record.groups or ())),
        cluster=record.cluster,
        tags=tuple(dict.fromkeys(record.tags)),
    )


def _explained(exc: Exception) -> str:
    if isinstance(exc, UnicodeError):
        return "not UTF-8: save the file as UTF-8"
    if isinstance(exc, RecursionError):
        return "nested too deep to be a prompt"
    if "matching regex" in str(exc):
        return f"{str(exc).partition(' - at ')[2] or exc}: must be {NAME_FORM}"
    return f"{exc}: write one JSON object a line with prompt, messages or swaps"


def _faults(record: _Line) -> Iterator[str]:
    members = [name for name in ("prompt", "messages", "swaps") if getattr(record, name) is not None]
    if len(members) != 1:
        yield f"has {' and '.join(members) or 'none of prompt, messages, swaps'}: give exactly one"
        return
    if record.axis is not None and record.axis not in AXES:
        yield f'axis "{record.axis}" is unknown: use one of {", ".join(AXES)}'
        return
    for name in ("swaps", "groups"):
        if getattr(record, name) is not None and record.axis is None:
            yield f"{name} needs axis, one of {', '.join(AXES)}"
            return
    if record.swaps is not None:
        if record.groups is not None:
            yield "swaps names its groups: leave groups out"
        if not 2 <= len(record.swaps) <= 20:
            yield f"swaps has {len(record.swaps)} versions: give 2 to 20"
    for group in (*(record.swaps or ()), *(record.groups or ())):
        if (record.axis, group) not in GROUPS:
            group_names = ", ".join(name for axis, name in sorted(GROUPS) if axis == record.axis)
            yield f'"{group}" is not a group of {record.axis}: use one of {group_names}'
            return
    for version in (record.prompt, record.messages, *(record.swaps or {}).values()):
        if isinstance(version, list) and version[-1].role != "user":
            yield f'the last message is of role "{version[-1].role}": a model answers one of role "user"'
            return
        if isinstance(version, str) and not re.search(r"\S", version):
            yield "a prompt of blank space alone: leave it out"
            return


def _messages(version: str | list[PromptMessage]) -> tuple[Message, ...]:
    if isinstance(version, str):
        return (Message("user", version),)
    return tuple(Message(message.role, message.content) for message in version)
