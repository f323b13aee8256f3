"""Finds the prose that a model says in its own voice in a reply, at its beginning and end: sentences without code,
quotations, lists, letters and thoughts, so that a quoted or translated refusal does not count. Linear time.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from auditors.text.refusals.patterns import compile_named
from auditors.text.thoughts import split

HEAD_CHARS = 4_000
TAIL_CHARS = 1_500
"""Characters read from the end of a longer reply, in addition to its beginning."""
LONGEST_SENTENCE = 400
OPENING = 4
"""Sentences in which a refusal may be worded in any way; a later one has to be plain about it."""
MOST_SENTENCES = 12
"""Read from the beginning; as many again as CLOSING from the end."""
CLOSING = 3
LONGEST_JSON_CHARS = 100_000
MOST_VALUES = 200
MOST_FENCES = 400
MOST_BARE_ITEMS = 3
"""Most list items that are read as sentences, in a reply that has nothing but items."""


class Prose(NamedTuple):
    """The parts of a reply that are read."""

    opening: list[str]
    """Sentences of the beginning, normalised, each with its mark."""
    later: list[str]
    """Further sentences, and those of the end."""
    is_data: bool = False
    """They are the strings of a JSON text."""
    says_refused: bool = False
    """The JSON text has a member that says so."""
    chars: int = 0
    """Number of characters of all the prose."""
    sentences: Sequence[str] = ()
    """All sentences, in order: `opening`, those that `later` leaves out, and `later`."""
    n_item_chars: int = 0
    """Number of characters of list items, of dialogue and of the text that the reply announces."""


def answer_of(reply: str) -> str:
    """The reply without thoughts; empty where it holds nothing else."""
    return split(reply).answer.strip()


def prose_of(reply: str) -> Prose:
    """The sentences of a reply that its model says in its own voice."""
    answer = answer_of(reply)
    data = data_of(answer)
    if data is not None:
        return _prose_of_data(data)
    return _prose_of_text(_cut(without_code(answer)))


def without_code(answer: str) -> str:
    """The text outside of fenced code; a fence around a whole answer in plain words is taken off."""
    parts = answer.split("```", MOST_FENCES)
    if len(parts) == 3 and not parts[0].strip() and not parts[2].strip():
        language, _, inside = parts[1].partition("\n")
        if language.strip().lower() in ("", "text", "txt", "markdown", "md", "plaintext"):
            return inside
    return "\n".join(parts[::2])


def data_of(answer: str) -> Any:
    """The value of an answer that is one JSON object or array, fenced or not; None for any other."""
    if len(answer) > LONGEST_JSON_CHARS:
        return None
    bare = _FENCE.sub("", answer, count=2).strip() if answer.startswith("```") else answer
    if not bare.startswith(("{", "[")):
        return None
    try:
        value = msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def strings_of(data: Any) -> list[str]:
    """The strings of a JSON value in order, without those of quoted or canned members; at most MOST_VALUES."""
    return [value for value, _ in zip(_strings(data), range(MOST_VALUES), strict=False)]


def normalised(text: str) -> str:
    """Small letters, one form for each sign, no marks of emphasis: what the patterns are written for."""
    plain = unicodedata.normalize("NFKC", text).translate(_SAME).lower()
    return _SIGNS_LEFT_OUT.sub("", plain)


def _prose_of_data(data: Any) -> Prose:
    if isinstance(data, list) and len(data) > 1:  # a set of records: what is said in one of them is content
        return Prose([], [], is_data=True)
    values = [normalised(value[:LONGEST_SENTENCE]) for value in strings_of(data)]
    says_refused = isinstance(data, dict) and any(data.get(name) is True for name in _SAYING_REFUSED)
    return Prose([], [value for value in values if _is_words(value)], True, says_refused, sum(map(len, values)))


def _prose_of_text(text: str) -> Prose:
    lines = [_STAGE.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    if lines and _is_letter(lines):
        ends = [number for number, line in enumerate(lines) if _SEPARATOR.fullmatch(line)]
        lines = lines[ends[-1] + 1 :] if ends else []
    if not lines:
        return Prose([], [])
    speakers = Counter(match[1] for line in lines if (match := _SPEAKER.match(line)))
    is_dialogue = max(speakers.values(), default=0) > 1 and len(speakers) > 1
    sentences = list[str]()
    n_chars = n_item_chars = 0
    for number, line in enumerate(lines):
        is_spoken = _DIALOGUE.match(line) or (is_dialogue and _SPEAKER.match(line))
        if is_spoken or (_ITEM.match(line) and len(lines) > 1):
            n_item_chars += len(line)
            continue
        plain = _quotations_left_out(normalised(line))
        if _HERE_IT_IS.match(plain):
            plain = plain.partition(":")[0] + ":" * (":" in plain)
        n_chars += len(plain)
        sentences += _sentences(plain)
        if number < len(lines) - 1 and sentences and _announces(plain, sentences):
            n_item_chars += sum(map(len, lines[number + 1 :]))
            return Prose(sentences[:OPENING], [], False, False, n_chars, sentences[:OPENING], n_item_chars)
    is_list = n_item_chars and not (sentences or is_dialogue or any(map(_DIALOGUE.match, lines)))
    if is_list and len(lines) <= MOST_BARE_ITEMS:
        sentences = [sentence for line in lines for sentence in _sentences(normalised(_ITEM.sub("", line, count=1)))]
        n_item_chars = 0
    later = sentences[OPENING:MOST_SENTENCES] + sentences[max(MOST_SENTENCES, len(sentences) - CLOSING) :]
    return Prose(sentences[:OPENING], later, False, False, n_chars, sentences, n_item_chars)


def _sentences(line: str) -> Iterator[str]:
    is_rest = False
    for match in _SENTENCE.finditer(line):
        if not is_rest and _is_words(match[0]):
            yield match[0].strip()
        is_rest = len(match[0]) == LONGEST_SENTENCE


def _announces(line: str, sentences: list[str]) -> bool:
    """Return whether the text after the line is the requested text, and no longer in the model's own voice."""
    is_short = not sentences[1:] and len(line.split()) <= 3  # "Lyrics:"
    return (
        line.rstrip().endswith(":")
        and len(sentences) <= 2
        and (is_short or bool(_HERE_IT_IS.match(sentences[0] or line)))
    )


def _is_letter(lines: list[str]) -> bool:
    return len(lines) > 1 and len(lines[0]) <= 60 and bool(_SALUTATION.match(normalised(lines[0])))


def _is_words(sentence: str) -> bool:
    return sum(map(str.isalpha, sentence)) >= 2


def _quotations_left_out(line: str) -> str:
    for pattern in _QUOTATIONS:
        line = pattern.sub(" ", line)
    return line


def _cut(text: str) -> str:
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"


def _strings(data: Any) -> Iterator[str]:
    """Yield the strings of a value without recursion: its depth is up to its author."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            waiting.extend(item for name, item in reversed(value.items()) if not _CANNED.search(name))


_FENCE = re.compile(r"```(?:json|JSON|json5)?[ \t]{0,8}(?=\n|$)")
_SAYING_REFUSED = ("refused", "refusal", "is_refusal", "declined")
_CANNED = re.compile(
    r"refus|fallback|error|log|template|prompt|example|translat|utterance|quote|source|original", re.IGNORECASE
)
"""Names of members whose strings are canned or another's words."""
_SAME = {
    **dict.fromkeys(map(ord, "’‘ʼ`´"), "'"),
    **dict.fromkeys(map(ord, "أإآٱ"), "ا"),
    ord("ى"): "ي",
    ord("ँ"): "ं",
    ord("ё"): "е",
    ord("Ё"): "Е",
    ord("İ"): "i",
}
_SIGNS_LEFT_OUT = re.compile(
    r"[*_#~\u00ad\u0307\u0640\u064b-\u0652\u093c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
"""Emphasis, signs without width, and the points above and below letters that are written or not."""
_SENTENCE = re.compile(rf"[^.!?。؟।…\n]{{1,{LONGEST_SENTENCE}}}[.!?。؟।…]?")
_STAGE = re.compile(
    r"^(?:>\s{0,4}){0,3}(?:\*[^*\n]{1,200}\*(?!\*)\s{1,4}|\[[^\]\n]{1,40}\]\s{1,4}|(?:AI|Assistant|Bot):\s{1,4})?"
)
"""Quotation marks of a line, stage directions and the name of who speaks."""
_ITEM = re.compile(r"[-+•▪◦‣]\s|\*\s|\d{1,3}[.)]\s|\|")
_DIALOGUE = re.compile(r"[—–―]")
"""Sign that begins a character's words in a story."""
_SPEAKER = re.compile(r"\W{0,3}([A-Z][\w. ]{0,20}):\W{0,3}\s")
"""Name that begins a line of a play, where names return."""
_SEPARATOR = re.compile(r"[-*_=]{3,40}")
_QUOTATIONS = (
    re.compile(r'"[^"\n]{0,600}"'),
    re.compile(r"[“„][^“”„\n]{0,600}[”“]"),
    re.compile(r"«[^«»\n]{0,600}»|»[^«»\n]{0,600}«"),
    re.compile(r"「[^「」\n]{0,600}」|『[^『』\n]{0,600}』"),
    re.compile(r"\b(?:translates?|means|reads|says|said|wrote|replied|answered)(?: \w{1,12}){0,3}:\s[^\n]{1,400}"),
    re.compile(r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){2,300}+'(?!\w)"),
)
_HERE_IT_IS = compile_named("here_it_is")
_SALUTATION = compile_named("salutation")
