"""Separates the thoughts in a reply's text from its answer, if the server did not: between marks (`<think>…</think>`),
before a closing mark alone, after an opening mark alone (the reply ended within), or by channels. A mark begins a line
or follows a thought; a closing mark alone also ends a line. Linear time.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Split(NamedTuple):
    """The two parts of a reply."""

    answer: str
    """The unchanged text if it has no thoughts; else the rest of it, without surrounding blanks."""
    thoughts: str | None = None
    """The thoughts; None if the text shows no marks, empty if the marks have nothing between them."""
    is_complete: bool = True
    """False if the text ends within a thought."""
    is_begun_before: bool = False
    """True if the text begins within a thought: its first mark closes one, or `is_begun` was given without a mark."""


def split(text: str, *, is_begun: bool = False) -> Split:
    """Answer and thoughts of a reply. `is_begun`: the template opened a thought, which then needs a closing mark."""
    if not is_begun and not text.startswith(_ANALYSIS) and _MARK.search(text) is None:
        return Split(text)
    answers, thoughts = list[str](), list[str]()
    at, is_complete = 0, True
    is_begun_before = is_begun and not (_OPENING_HERE.match(text) or _OPENING.match(text))
    if is_begun_before:
        closing = _CLOSING.search(text)
        if closing is None:
            return Split("", text.strip(), is_complete=False, is_begun_before=True)
        thoughts.append(text[: closing.start()])
        at = closing.end()
    following = _OPENING.search(text, at)
    while True:
        if following is not None and following.start() < at:
            following = _OPENING.search(text, at)
        opening = (_OPENING_HERE.match(text, at) if at else None) or following
        lone = _LONE_CLOSING.search(text, at, opening.start() if opening else len(text))
        if lone is not None:
            is_begun_before = is_begun_before or not thoughts
            thoughts += [*answers, text[at : lone.start()]]
            answers.clear()
            at = lone.end()
            continue
        if opening is None:
            break
        answers.append(text[at : opening.start()])
        closing_mark = _MARKS[opening["mark"]] if opening["mark"] else _BARE_FINAL
        end = text.find(closing_mark, opening.end())
        if end < 0:
            thoughts.append(text[opening.end() :])
            at, is_complete = len(text), False
            break
        thoughts.append(text[opening.end() : end])
        at = end + len(closing_mark)
    if not thoughts:
        return Split(text)
    answer = "\n".join(part.strip() for part in [*answers, text[at:]] if part.strip())
    return Split(
        _TRAILING_MARKS.sub("", answer).strip(),
        "\n".join(part.strip() for part in thoughts if part.strip()),
        is_complete,
        is_begun_before,
    )


_CHANNEL_FINAL = "<|channel|>final<|message|>"
_BARE_FINAL = "assistantfinal"
_TAGS = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "seed:think", "mm:think"),
    *("ifm|think", "ifm|think_fast", "ifm|think_faster"),
)
_MARKS = {
    **{f"<{tag}>": f"</{tag}>" for tag in _TAGS},
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|plamo:begin_think:plamo|>": "<|plamo:end_think:plamo|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": _CHANNEL_FINAL,
    "<|channel|>commentary<|message|>": _CHANNEL_FINAL,
}


def _any_of(marks: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(set(marks), key=lambda mark: (-len(mark), mark))))


def _may_begin(marks: Iterable[str]) -> str:
    """Return a pattern that matches the marks and little else; it skips other text ten times as fast as `_any_of`."""
    first, second = ("".join(sorted({re.escape(mark[place]) for mark in marks})) for place in (0, 1))
    return rf"[{first}](?=[{second}])(?:{_any_of(mark[1:] for mark in marks)})"


_MARK = re.compile(_may_begin([*_MARKS, *_MARKS.values()]))
_ANALYSIS = "analysis"
_OPENS = rf"(?:<\|start\|>assistant)?(?P<mark>{_any_of(_MARKS)})"
_BARE_ANALYSIS = rf"\A{_ANALYSIS}(?=[A-Z\"“'])"
"""Pattern of a channel whose special tokens the server left out: its name stands right before the first word."""
_OPENING = re.compile(rf"^[ \t]{{0,20}}{_OPENS}|{_BARE_ANALYSIS}", re.MULTILINE)
_OPENING_HERE = re.compile(rf"\s{{0,20}}{_OPENS}")
_CLOSES = _any_of([*_MARKS.values(), "<|start|>assistant" + _CHANNEL_FINAL])
_CLOSING = re.compile(_CLOSES)
_LONE_CLOSING = re.compile(rf"^[ \t]{{0,20}}(?:{_CLOSES})|(?:{_CLOSES})(?=[ \t]{{0,20}}$)", re.MULTILINE)
_TRAILING_MARKS = re.compile(r"(?:<\|(?:return|end|call)\|>\s{0,20})$")
"""Pattern of the marks that may follow an answer in a format with channels."""
