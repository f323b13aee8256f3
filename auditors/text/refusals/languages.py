"""The language of a reply: without rules for it, a reply would count as answered whatever it says. Another language
shows by letters that no language with rules uses, by function words, or by running prose without any function word.
Lists, names, tables, numbers and code show none. Letters and words are from general knowledge.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from auditors.text.refusals.prose import HEAD_CHARS, answer_of, data_of, strings_of, without_code
from auditors.text.refusals.rules import READ_LANGUAGES
from auditors.text.swaps.words import WORDS

OTHER = "other"
"""A language that has no rules, or cannot be told."""
NONE = "none"
"""Nothing in the reply shows a language: names, numbers, code, a word or two."""

_LISTS: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("function_words.toml").read_text(encoding="utf-8"))
_MORE_ENGLISH = "cannot don't i'm it's won't your yes has its may just here"
FUNCTION_WORDS: dict[str, frozenset[str]] = {
    "en": WORDS["english"] | frozenset(_MORE_ENGLISH.split()),
    **{language: frozenset(words.split()) for language, words in _LISTS.items()},
}
"""Function words of languages in Latin script, with rules or without."""
MOST_WORDS = 600
SURE_HITS = 3
"""Number of function words that show a language; fewer do if they are a good part of a short text."""
SURE_SHARE = 0.25
RUN = 6
"""Number of words in a row that make running prose."""
LEAST_SHARE = 0.08
"""Least share of the words of running prose that are function words of the language that it seems to be written in."""


def language_of(reply: str) -> str:
    """Return a language with rules (`rules.READ_LANGUAGES`), NONE or OTHER, from the first text outside code."""
    text = _words_of(reply)
    counts = {script: len(pattern.findall(text)) for script, pattern in _SCRIPTS.items()}
    n_letters = sum(map(str.isalpha, text))
    n_other = n_letters - sum(counts.values())
    if not n_letters:
        return NONE
    if n_other > max(2, 0.3 * n_letters):
        return OTHER
    counts["han"] *= 3  # a sign of it is about half a word, a Latin letter a fifth
    match max(counts, key=lambda script: counts[script]):
        case "cyrillic":
            return OTHER if _NOT_RUSSIAN.search(text) else "ru"
        case "arabic":
            return OTHER if _NOT_ARABIC.search(text) else "ar"
        case "devanagari":
            return _devanagari(text)
        case "hangul":
            return "ko"
        case "kana":
            return "ja"
        case "han":
            return "ja" if counts["kana"] else "zh"
        case _:
            return _latin(text)


def _words_of(reply: str) -> str:
    """The text whose language matters: strings of JSON, else what is not code, without addresses."""
    answer = answer_of(reply)
    data = data_of(answer)
    text = without_code(answer) if data is None else "\n".join(strings_of(data))
    return _ADDRESS.sub(" ", text[:HEAD_CHARS])


def _devanagari(text: str) -> str:
    words = text.split()
    n_hindi = sum(word.strip(_MARKS) in _HINDI for word in words)
    n_others = sum(word.strip(_MARKS) in _NOT_HINDI for word in words)
    if n_others > n_hindi or (len(words) >= RUN and not n_hindi and not _ITEMS.search(text)):
        return OTHER
    return "hi"


def _latin(text: str) -> str:
    words = [
        match[0].lower().replace("’", "'") for match, _ in zip(_WORD.finditer(text), range(MOST_WORDS), strict=False)
    ]
    hits = {
        language: sum(word in function_words for word in words) for language, function_words in FUNCTION_WORDS.items()
    }
    best = max(hits, key=lambda language: (hits[language], language in READ_LANGUAGES, language == "en"))
    running = [word for run in _RUN.findall(text.replace("’", "'")) for word in run.lower().split(" ")][:MOST_WORDS]
    n_known = sum(word in FUNCTION_WORDS[best] or word.partition("'")[0] in FUNCTION_WORDS[best] for word in running)
    n_odd = sum(bool(_ODD_LETTERS.search(match)) for match in _SMALL_WORD.findall(text))
    if n_odd > 1 and n_odd >= hits[best]:
        return OTHER
    if running and n_known < LEAST_SHARE * len(running):
        return OTHER
    if not hits[best]:
        return NONE
    if best not in READ_LANGUAGES:
        return OTHER
    if hits[best] >= SURE_HITS or hits[best] >= SURE_SHARE * len(words):
        return best
    return NONE


_SCRIPTS = {
    "latin": re.compile(r"[A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿ]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "arabic": re.compile(r"[\u0620-\u064a\u066e-\u06d3]"),
    "devanagari": re.compile(r"[\u0904-\u0939\u0958-\u0961]"),
    "hangul": re.compile(r"[\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f]"),
    "kana": re.compile(r"[\u3041-\u30ff\uff66-\uff9d]"),
    "han": re.compile(r"[\u3005\u3400-\u4dbf\u4e00-\u9fff]"),
}
_NOT_RUSSIAN = re.compile(
    r"[іїєґўђћџјљњѓќѕәғқңөұүһӣӯҷҳІЇЄҐЎЂЋЏЈЉЊЃЌЅӘҒҚҢӨҰҮҺ]|[Ъъ][бвгджзклмнпрстфхцчшщ]"
    r"|\b(?:але|можу|бо|це|цей|цим|що|або|якщо|вибачте|дякую|маю|вашого|його|цього|щоб|дуже|бути|від|також|лише|"
    r"това|ще|съм|мога|защото|което|тази|със)\b"
)
_NOT_ARABIC = re.compile(r"[پچژگکیےٹڈڑںھہۀە]")
_MARKS = "।,.!?:;\"'“”()"
_HINDI_WORDS = """
है हैं था थी थे में के की का को से और नहीं मैं हूँ हूं यह ये पर कि भी एक आप करें हो ही तो लिए जो इस हाँ"""
_HINDI = frozenset(_HINDI_WORDS.split())
_NEIGHBOURS_WORDS = "आहे आहेत आणि नाही मी हे तुम्ही केले छ छैन र गर्न म हुन्छ यो तपाईं"
_NOT_HINDI = frozenset(_NEIGHBOURS_WORDS.split())
"""Function words of Marathi and Nepali."""
_ITEMS = re.compile(r"^\s{0,8}(?:[-*•|]|\d{1,3}[.)])", re.MULTILINE)
_ADDRESS = re.compile(r"https?://[^\s<>]{1,300}|\b[\w.+-]{1,64}@[\w.-]{1,100}|\bwww\.[^\s<>]{1,200}")
_WORD = re.compile(r"[^\W\d_]{1,40}(?:['’][^\W\d_]{1,10})?")
_SMALL_WORD = re.compile(r"(?<![^\W\d_])[a-zß-öø-ɏạ-ỹ][^\W\d_]{0,40}")
_ODD_LETTERS = re.compile(r"[șțăřěůťďňőűơưđạ-ỹāēīūģķļņėįų]")
"""Letters of no language with rules, in words other than names."""
_RUN = re.compile(
    rf"(?:(?<=\s)|^)(?:[^\W\d_]{{1,30}}+(?:'[^\W\d_]{{1,10}}+)? ){{{RUN - 1},40}}+[a-zß-öø-ɏ][^\W\d_]{{0,30}}",
    re.MULTILINE,
)
"""Words with nothing but a blank between them."""
