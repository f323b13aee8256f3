"""Logs of Inspect as JSON, of tasks whose options have letters (its solver multiple_choice)."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Message
from gateway.features.formats.harness_logs.log import MOST_SAMPLES, Answered, Log, LogError, read_file, without_mark

_MARK = "answer:"
"""Begins the line that Inspect's own prompt asks for."""
_PACKED = b"PK\x03\x04"


class Spec(msgspec.Struct, frozen=True):
    task: str
    model: str | None = None
    packages: dict[str, Any] = {}


class Output(msgspec.Struct, frozen=True):
    completion: str = ""
    choices: list[Any] = []


class PromptMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class Sample(msgspec.Struct, frozen=True):
    """The part of a sample that is read."""

    input: str | list[PromptMessage]
    choices: list[str] | None = None
    messages: list[PromptMessage] = []
    output: Output = Output()
    epoch: Any = 1


class File(msgspec.Struct, frozen=True):
    eval: Spec
    samples: list[Sample] | None = None


def read(path: Path) -> Log:
    """Raises: LogError for a file that is none, is packed (.eval), or has no samples."""
    content = read_file(path)
    if content.startswith(_PACKED):
        raise LogError(f"{path}: is packed: unpack it with inspect log convert {path.name} --to json --output-dir DIR")
    try:
        file = msgspec.json.decode(without_mark(path, content), type=File)
    except UNREADABLE as exc:
        raise LogError(f"{path}: no log of Inspect: {exc}") from exc
    if not file.samples:
        raise LogError(f"{path}: holds no sample")
    return Log(
        harness="inspect",
        version=str(file.eval.packages.get("inspect_ai", "unknown")),
        task=file.eval.task,
        model=file.eval.model,
        sha256=hashlib.sha256(content).hexdigest(),
        answers=[_answered(sample) for sample in file.samples],
    )


def _answered(sample: Sample) -> Answered:
    question = sample.input if isinstance(sample.input, str) else "\n".join(_text(message) for message in sample.input)
    return Answered(
        prompt=tuple(_read_prompt(sample.messages)),
        question=question,
        options=tuple(sample.choices or ()),
        reply=_reply(sample.output),
        sample=sample.epoch - 1 if type(sample.epoch) is int and 1 <= sample.epoch <= MOST_SAMPLES else None,
    )


def _read_prompt(messages: Iterable[PromptMessage]) -> Iterable[Message]:
    for message in messages:
        if message.role == "assistant":
            return
        yield Message(message.role, _text(message))


def _reply(output: Output) -> str | None:
    """Returns the text after the last "ANSWER:", or the whole completion without one; None without any."""
    if not output.choices:
        return None
    for line in reversed(output.completion.splitlines()):
        place = line.lower().rfind(_MARK)
        if place >= 0 and (answer := line[place + len(_MARK) :].strip()):
            return answer
    return output.completion


def _text(message: PromptMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(str(part.get("text", "")) for part in message.content if part.get("type") == "text")
