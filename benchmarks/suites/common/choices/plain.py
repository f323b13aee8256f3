"""Takes away from a reply what wraps its answer: thoughts, markup, LaTeX, JSON, quotation marks, accents."""

import re
import unicodedata
from collections.abc import Sequence, Set

from auditors.text.thoughts import split

LONGEST = 8_000
"""Characters that are read of a reply: half of them from its beginning, half from its end."""
WORDS = re.compile(r"\w+")
_INVISIBLE = re.compile("[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\u00ad\u200b-\u200f\u2060-\u2064\ufeff\ue000-\uf8ff]")
_CHARACTERS = str.maketrans(
    dict.fromkeys('"“”„‟«»*', "")
    | dict.fromkeys("‘’‛`´ʼ", "'")
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("_|{}$", " ")
    | dict.fromkeys("→⇒", ":")
    | {"。": ".", "、": ",", "🅰": "A", "🅱": "B"}
)
_TAGS = (
    "answer|b|br|bos|center|choice|code|div|em|eos|explanation|i|li|mark|ol|option|output|p|pad|pre|reasoning|response"
    "|result|s|span|strong|sub|sup|u|ul|end_of_turn|start_of_turn"
)
_MARKUP: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE | re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"[ \t\r\f\v]+", " "),
        (r" ?\n\s*", "\n"),
        (r"~~[^~\n]{1,200}~~", " "),
        (r"<(?:final )?answer>|\\boxed\s*\{|(?:答案|选项|选择|选)\s*[:是为]?", "\nanswer: "),
        (rf"</?(?-i:{_TAGS})\b[^<>\n]{{0,40}}>|<\|[\w ]{{1,30}}\|>", " "),
        (r"\\[a-z]{2,12}\b\s*\{?|\\[()\[\]]", " "),
        (r"""["']([\w ]{1,40})["']\s*:(?=\s*["'\[{\w])""", r"\n\1: "),
        (r"""(?<=["'\w])\s*,\s*(?=\n)""", "\n"),
        (r"^ ?(?:#{1,6}|>+|[-+•·*]) ", ""),
        (r"=+>|-+>|=", ": "),
        (r"\bans\b[.:]?", "answer:"),
    )
]
_SINGLE_QUOTES = re.compile(r"(?<!\w)'|'(?!\w)")


def plain(text: str) -> str:
    """Return the answer in a reply without what wraps it; a key of JSON becomes the words before a colon."""
    answer = split(text).answer
    if len(answer) > LONGEST:
        answer = f"{answer[: LONGEST // 2]}\n{answer[-LONGEST // 2 :]}"
    if not answer.isascii():
        answer = _INVISIBLE.sub("", unicodedata.normalize("NFKD", answer))
    for pattern, replacement in _MARKUP:
        answer = pattern.sub(replacement, answer)
    return _SINGLE_QUOTES.sub("", answer.translate(_CHARACTERS))


def words_of(text: str) -> str:
    """Return the words of a reply or of an option, plain and in lower case, with single spaces between them."""
    return " ".join(WORDS.findall(plain(text))).casefold()


def spellings(choices: Sequence[str]) -> list[str]:
    """Return the ways to name each choice, by its text, its number or its letter; case and punctuation are free."""
    ways: list[str] = []
    for number, text in enumerate(choices, 1):
        for name in _names(number):
            ways += [name, f"{name}. {text}"]
        ways += [text, re.sub(r"^(?:the|an?) ", "", text, flags=re.IGNORECASE)]
    return list(dict.fromkeys(ways))


def contradictions(choices: Sequence[str], accepted: Set[str]) -> frozenset[str]:
    """Return the words of each accepted label with the text of another choice."""
    labels = [(place, words_of(name)) for place in range(len(choices)) for name in _names(place + 1)]
    return frozenset(
        f"{label} {words_of(text)}"
        for place, label in labels
        for other, text in enumerate(choices)
        if other != place and label in accepted
    )


def _names(number: int) -> tuple[str, ...]:
    """Return the labels of a choice, by its number and by its letter, and the ways to begin with one."""
    letter = chr(ord("A") + number - 1)
    return (f"Choice{number}", f"Choice {number}", str(number), letter, f"Answer: {letter}", f"The answer is {letter}")
