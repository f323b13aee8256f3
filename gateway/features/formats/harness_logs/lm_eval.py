"""Reads samples of lm-evaluation-harness (--log_samples): samples_TASK_TIME.jsonl, next to results_TIME.json."""

import hashlib
import io
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Message
from gateway.features.formats.harness_logs.log import MOST_SAMPLES, Answered, Log, LogError, read_file, without_mark

_NAME = re.compile(r"samples_(?P<task>.{1,200})_(?P<time>\d{4}-\d\d-\d\dT[\d.\-]{1,30})\.jsonl")


class Line(msgspec.Struct, frozen=True):
    """The part of a line that is read."""

    doc_id: int
    doc: dict[str, Any]
    arguments: dict[str, dict[str, Any]]
    resps: list[list[Any]]
    filter: str = "none"


def read(path: Path) -> Log:
    """Read samples, and version and model from the results next to them, if present. Raises LogError."""
    content = read_file(path)
    lines = _lines(path, without_mark(path, content))
    first = lines[0].filter
    answers = [answer for line in lines if line.filter == first for answer in _answers(line)]
    name = _NAME.fullmatch(path.name)
    about = _results(path.with_name(f"results_{name['time']}.json")) if name else {}
    model = about.get("model_name")
    return Log(
        harness="lm-eval",
        version=str(about.get("lm_eval_version") or "unknown"),
        task=name["task"] if name else path.stem,
        model=model if isinstance(model, str) and model else None,
        sha256=hashlib.sha256(content).hexdigest(),
        answers=answers,
    )


def _lines(path: Path, content: bytes) -> list[Line]:
    decoder, lines = msgspec.json.Decoder(Line), []
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.strip():
            try:
                lines.append(decoder.decode(line))
            except UNREADABLE as exc:
                raise LogError(f"{path}, line {number}: no sample of lm-eval (samples_TASK_TIME.jsonl): {exc}") from exc
    if not lines:
        raise LogError(f"{path}: holds no sample")
    return lines


def _answers(line: Line) -> Iterable[Answered]:
    arguments = list(line.arguments.values())
    text = arguments[0].get("arg_0") if arguments else None
    prompt = (Message("user", text if isinstance(text, str) else ""),) if arguments else ()
    fields = tuple(_texts(line.doc))
    for sample, reply in enumerate(_replies(line, arguments)):
        yield Answered(prompt=prompt, fields=fields, reply=reply, sample=sample if sample < MOST_SAMPLES else None)


def _replies(line: Line, arguments: list[dict[str, Any]]) -> list[str | None]:
    if all(isinstance(argument.get("arg_1"), str) for argument in arguments):
        return [_likeliest(line, arguments)]
    return [reply if isinstance(reply, str) else None for reply in (line.resps[0] if line.resps else [None])]


def _likeliest(line: Line, arguments: list[dict[str, Any]]) -> str | None:
    """The first of the likeliest, as the harness itself has it."""
    try:
        likelihoods = [float(resp[0][0]) for resp in line.resps]
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        return None
    if len(likelihoods) != len(arguments) or not likelihoods or any(map(math.isnan, likelihoods)):
        return None
    chosen: str = arguments[likelihoods.index(max(likelihoods))]["arg_1"]
    return chosen.strip()


def _texts(value: Any) -> Iterable[str]:
    """Yield every text in a value, in order. Not recursive, since a log may be nested as deeply as it likes."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            left += reversed(list(part.values()))
        elif isinstance(part, list):
            left += reversed(part)


def _results(path: Path) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(without_mark(path, read_file(path)))
    except (LogError, *UNREADABLE):
        return {}
    return decoded if isinstance(decoded, dict) else {}
