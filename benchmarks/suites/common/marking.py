"""Replaces whatever names an offered option in a reply by a mark of its place, so that no later rule sees which it is.

A reply names an option by its text, by its label ("B", "Choice2", "the second one"), or, where an option says that the
context does not tell, by any wording of that. Markup, quotation marks, JSON, accents and thoughts are taken away first.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from auditors.text.thoughts import split
from benchmarks.suites.common.undetermined import SAYS_UNDETERMINED

Labels = Literal["letters", "numbers", "none"]
"""Kind of the labels with which a prompt shows its options."""
LONGEST = 8_000
"""Characters that are read of a reply: half of them from its beginning, half from its end."""
LONGEST_NAME = 4
"""Words of an option of which a part may stand for it."""
MIN_CUT = 4
"""Shortest beginning of an option, in characters, that ends within a word and may stand for it."""

_FIRST_TEXT, _FIRST_LABEL = 0xE000, 0xE100
NOT_OFFERED, SHARED, CONTRADICTION, DROPPED = "\ue0f0", "\ue0f1", "\ue0f2", "\uf000"
"""Marks of a label that is not offered, of options named together, of a label against a text, and of an option that is
mentioned without being chosen."""
TEXT, LABEL = "[\ue000-\ue0ff]", "[\ue100-\ue1ff]"
NO_MARK = "[^\\w\ue000-\uf8ff]"
"""Patterns of a mark by text or merged, of a mark by label, and of a character that is neither word nor mark."""

WORDS = re.compile(r"\w+")
_INVISIBLE = re.compile("[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\u00ad\u200b-\u200f\u2060-\u2064\ufeff\ue000-\uf8ff]")
_QUOTES = str.maketrans(
    dict.fromkeys('"“”„‟«»', "")
    | dict.fromkeys("‘’‛`´ʼ", "'")
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {
        "_": " ",
        "|": " ",
        "*": "",
        "。": ".",
        "、": ",",
        "→": ":",
        "⇒": ":",
        "{": " ",
        "}": " ",
        "$": " ",
        "🅰": "A",
        "🅱": "B",
    }
)
_TAGS = (
    "answer|b|br|bos|center|choice|code|div|em|eos|explanation|i|li|mark|ol|option|output|p|pad|pre|reasoning|response|result|s"
    "|span|strong|sub|sup|u|ul|end_of_turn|start_of_turn"
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
_ARTICLE = re.compile(r"^(?:the|an?) (?=.)")


def plain(text: str) -> str:
    """Return the answer in a reply without thoughts, markup, quotation marks and accents; the case of letters stays."""
    answer = split(text).answer
    if len(answer) > LONGEST:
        answer = f"{answer[: LONGEST // 2]}\n{answer[-LONGEST // 2 :]}"
    if not answer.isascii():
        answer = _INVISIBLE.sub("", unicodedata.normalize("NFKD", answer))
    for pattern, replacement in _MARKUP:
        answer = pattern.sub(replacement, answer)
    return _SINGLE_QUOTES.sub("", answer.translate(_QUOTES))


def words_of(text: str) -> str:
    """Return the words of a reply or of an option, plain and in lower case, with single spaces between them."""
    return " ".join(WORDS.findall(plain(text))).casefold()


class Offer(NamedTuple):
    """The options of an item, as replies may name them."""

    n: int
    labels: Labels
    forms: tuple[tuple[str, int], ...]
    """Words that name a single option, and its place; the longest first."""
    parts: frozenset[str]
    """Forms that are a part of an option only: "landlord"; "a landlord" is none."""
    ends: tuple[str, ...]
    """The mark that ends the text of each option, empty for none."""
    frame: tuple[str, str] | None
    """Words before and after the gap of a sentence that the options fill."""
    undetermined: int | None
    """Place of the option that says that the context does not tell."""
    is_prose: bool
    """True if a sentence about an option is an answer: "It was he who was late"."""


@lru_cache(2048)
def offer(
    texts: tuple[tuple[str, ...], ...],
    labels: Labels,
    *,
    sentence: str | None = None,
    undetermined: int | None = None,
    is_prose: bool = False,
) -> Offer:
    """Return the options whose texts are given, each in one or several forms. `sentence`: has [MASK] for its gap."""
    places: dict[str, set[int]] = {}
    for place, forms in enumerate(texts):
        for form in map(words_of, forms):
            for spelling in {form, _ARTICLE.sub("", form, count=1) if _ARTICLE.match(form) else form} - {""}:
                places.setdefault(spelling, set()).add(place)
    parts: dict[str, set[int]] = {}
    for place, forms in enumerate(texts if is_prose else ()):
        for part in _parts(forms) if place != undetermined else ():
            if part not in places:
                parts.setdefault(part, set()).add(place)
    single = sorted(
        ((form, *place) for form, place in (places | parts).items() if len(place) == 1), key=lambda pair: -len(pair[0])
    )
    ends = tuple((_END.search(forms[0]) or [""])[0] if forms else "" for forms in texts)
    around = sentence.split("[MASK]") if sentence else []
    frame = (words_of(around[0]), words_of(around[1])) if len(around) == 2 else None
    return Offer(len(texts), labels, tuple(single), frozenset(parts), ends, frame, undetermined, is_prose)


_END = re.compile(r"[.!?,;](?=\W*$)")
_AFTER_NOUN = re.compile(r"\b(?:from|of|with|who|whose|in|at|without)\b")


def _parts(forms: Sequence[str]) -> Iterator[str]:
    """Yield the noun of an option in several words, and the first word of a name: "landlord", "Jamal"."""
    for form in forms:
        noun = WORDS.findall(_AFTER_NOUN.split(plain(form), maxsplit=1)[0])
        if 1 < len(noun) <= LONGEST_NAME:
            yield noun[-1].casefold()
            if all(word.istitle() for word in noun) and noun[0] != "The":
                yield noun[0].casefold()


def place_of(mark: str) -> int:
    """Return the place of the option that a mark by text or by label stands for."""
    return ord(mark) & 0xFF


def as_text(mark: str) -> str:
    """Return the mark by text of the same option."""
    return chr(_FIRST_TEXT + place_of(mark))


def mentions(words: str, form: str) -> Iterator[int]:
    """Yield the places, in words, where a form stands in normalised words."""
    padded, wanted = f" {words} ", f" {form} "
    at, n_words, counted = padded.find(wanted), 0, 0
    while at >= 0:
        n_words += padded.count(" ", counted, at)
        counted = at
        yield n_words
        at = padded.find(wanted, at + 1)


class Marked(NamedTuple):
    """A plain reply in lower case, but for single letters, with a mark in place of each mention of an option."""

    text: str
    is_completed: bool = False
    """True if a mark stands for words that only begin, or in prose end, an option."""


def marked(text: str, options: Offer) -> Marked:
    """Return a plain reply with its marks."""
    found = list(WORDS.finditer(text))
    words = [match[0].casefold() for match in found]
    joined = " ".join(words)
    length_at, mark_at = dict[int, int](), dict[int, str]()
    taken = [False] * len(words)

    def claim(start: int, length: int, place: int, lead: str = "") -> None:
        end = start + length
        if any(taken[start:end]) or _is_part_of_compound(text, found, start, end):
            return
        if end < len(found) and words[end] == "s" and text[found[end].start() - 1] == "'":
            length += 1
        taken[start : start + length] = [True] * length
        length_at[start], mark_at[start] = length, lead + chr(_FIRST_TEXT + place)

    for form, place in _with_frames(joined, options):
        for start in mentions(joined, form):
            if form in options.parts and start and words[start - 1] in ("a", "an"):
                continue
            if form in _CUES and re.match(r"\W*:|\s+(?:is|would)\b", text[found[start].end() :][:12]):
                continue
            claim(start, form.count(" ") + 1, place)
    if options.undetermined is not None:
        for match in SAYS_UNDETERMINED.finditer(joined):
            start = joined.count(" ", 0, match.start())
            claim(start, match[0].count(" ") + 1, options.undetermined, "it is ")
    parts, at, number = list[str](), 0, 0
    while number < len(found):
        parts.append(text[at : found[number].start()])
        length = length_at.get(number, 1)
        is_capital = length == 1 and len(found[number][0]) == 1
        parts.append(mark_at.get(number) or (found[number][0] if is_capital else words[number]))
        number += length
        at = found[number - 1].end()
        if mark_at.get(number - length):
            at += _is_end_of_option(text, at, options.ends[place_of(mark_at[number - length][-1])])
            if not options.is_prose and length > 2 and _CONTINUES.match(text, at):
                parts.append(",")
    return _labelled("".join([*parts, text[at:]]), options)


def _is_part_of_compound(text: str, found: Sequence[re.Match[str]], start: int, end: int) -> bool:
    """Return whether a hyphen or a possessive 's ties the words to others: "African-American", "Gloria's sister"."""
    before = text[found[start - 1].end() : found[start].start()] if start else ""
    after = text[found[end - 1].end() : found[end].start()] if end < len(found) else ""
    if before == "-" or after == "-":
        return True
    if after == " " and found[end][0].casefold().startswith("american"):
        return True
    follows = found[end + 1][0].casefold() if end + 1 < len(found) else "the"
    return after == "'" and found[end][0].casefold() == "s" and follows not in _AFTER_IS


def _is_end_of_option(text: str, at: int, end: str) -> bool:
    """Return whether the mark that ends an option stands there and ends no sentence."""
    return bool(end) and text.startswith(end, at) and (end == "?" or bool(_GOES_ON.match(text, at + 1)))


_GOES_ON = re.compile(r"[.,]? *(?:\n|$)|,| +[a-z]")
_CONTINUES = re.compile(r" (?:and|while|so|as|when|but|to|with)\b")
_CUES = frozenset({"answer", "choice", "option", "word", "response", "result"})
"""Options that are also words which announce an answer."""
_AFTER_IS = frozenset({"the", "a", "an", "not", "more", "most", "probably", "likely", "who"})


def _with_frames(joined: str, options: Offer) -> Iterator[tuple[str, int]]:
    """Yield the forms that stand in the words; before them, those that stand there within the whole sentence."""
    padded = f" {joined} "
    present = [(form, place) for form, place in options.forms if f" {form} " in padded]
    if options.frame is not None:
        for form, place in present:
            whole = " ".join(filter(None, (options.frame[0], form, options.frame[1])))
            yield (joined if f" {joined} " in f" {whole} " else whole), place
    yield from present


_NUMERALS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
}
_BY_NOUN = re.compile(
    r"(?:\bnumber |\b(?:no|nr)\.? ?(?=\d)|#(?=\d))(?P<counted>\d|one|two|three|four)(?!\w|\.\d)"
    r"|\b(?P<noun>option|choice|alternative|choose|chose)[ :#(\[.-]*(?:is )?"
    r"(?:(?P<number>\d+(?!\w|\.\d)|(?<!choose )(?:one|two|three|four)\b)|(?P<letter>[A-Hb-h]|a(?=[).:,]|[^\w\n]*$))(?![\w']))"
    r"|\b(?:the )?(?:(?P<ordinal>first|second|third|fourth|last)|(?P<short>\d)(?:st|nd|rd|th)) "
    r"(?:one|option|choice|alternative|answer|(?P<person>person|man|woman|name|subject))\b"
    r"|^\W*(?P<alone>first|second|third|last|1st|2nd|3rd)(?=\W*$)"
    r"|\bthe (?P<lone>first|second|third|fourth|former|latter|last)(?= of the (?:two|three)|[^\w\n]*$|[.,;:!)])",
    re.MULTILINE,
)
_ITSELF = re.compile(r"(?<![\w'.%$-])(?:[A-Ha-h](?![\w'])|\d+(?![\w%]|\.\d))")
_BEFORE = 48
"""Characters before a possible label that tell whether it is one."""
_ALONE_BEFORE, _ALONE_AFTER = re.compile(r"(?:^|\n)[^\w\n]*$"), re.compile(r"[^\w\n]*(?:\n|$)")
_BEGINS = re.compile(r"(?:^|[\n.!?:;,(\[])[^\w\n]*$")
_LISTED = re.compile(r"\s?[).:\]]|,\s|\s+-")
_CALLED = re.compile(
    r"\b(?:answer|letter|number|no\.?|pick|select|choose|statement|sentence)s?[ :#(\[-]*(?:is|was|be)?[ :#(\[-]*$"
)
_JOINS = "is|was|because|since|as|and|or|nor|but|not|for|due|given|would|seems|fits|relates|over|than|rather|vs"
_CALLED_SMALL = re.compile(r"\b(?:is|be|with|pick|select|choose|say|guess)[ :(\[]*$")
_READ_ON = re.compile(rf" +(?!(?:{_JOINS})\b)[a-z]")
_GOVERNS = re.compile(rf"[^\w\n]*(?:\n|$)|[).:,\]]|\s+(?:{_JOINS})\b")
_LIST_MARK = re.compile(rf"(?:(?<![\w'])[A-Ha-h]|(?<![\w.])\d{{1,2}})[).:\]]+[(\[ ]*(?={TEXT})")
_OF_TEXT = r"(?:(?:it is|it's|it was|that is|is|namely|i\.e\.|the answer is)[\s,:]+)*"
_LABEL_AND_TEXT = re.compile(
    rf"(?P<label>{LABEL})[ ).:,\](\[=>-]*(?P<link>{_OF_TEXT})(?:(?:the|an?) )?(?P<text>{TEXT})(?P<on>,? ?\w)?"
    rf"|(?P<text_first>{TEXT}),?\s*[(\[]\s*(?:answer|option|choice)?\s*(?P<label_last>{LABEL})\s*[)\]]"
)


def _labelled(text: str, options: Offer) -> Marked:
    """Put marks in place of labels, and of a reply that only begins an option; a label and its text become one mark."""
    text = _BY_NOUN.sub(lambda match: _by_noun(match, options), text)
    text = _ITSELF.sub(lambda match: _by_itself(match, options), text)
    text = _LIST_MARK.sub("", text)
    completed = _completed(text, options)
    return Marked(_LABEL_AND_TEXT.sub(_merged, completed), completed != text)


_LEAD = re.compile(
    rf"{NO_MARK}*(?:{LABEL}[\s).:,\]-]*)?(?:(?:the|my)?\s*(?:correct|best|right|final|missing)?\s*"
    r"(?:answer|choice|word|pronoun)(?:\s+is\b|\s*:)\s*:?)?"
)
_NO_BEGINNINGS = frozenset({"", "the", "a", "an", "i"})


def _completed(text: str, options: Offer) -> str:
    """Return the text with a mark for all its words, or all behind a label, if they begin a single option."""
    lead = _LEAD.match(text)
    at = lead.end() if lead else 0
    words = " ".join(WORDS.findall(text[at:])).casefold().removeprefix("the ")
    if words in _NO_BEGINNINGS or re.search(f"{TEXT}|{LABEL}|[?]", text[at:]):
        return text
    is_long = len(words) >= MIN_CUT
    places = {
        place
        for form, place in options.forms
        if form.startswith(words if is_long else f"{words} ")
        or (options.is_prose and is_long and form.endswith(f" {words}"))
    }
    return text[:at] + chr(_FIRST_TEXT + places.pop()) if len(places) == 1 else text


def _label(place: int, n: int) -> str:
    return chr(_FIRST_LABEL + place) if 0 <= place < n else NOT_OFFERED


def _by_noun(match: re.Match[str], options: Offer) -> str:
    """Replace "option B", "choice 2", "the second one" and "the latter", which name a place whatever labels are shown."""
    if match["person"] and options.labels != "none":
        return match[0]
    n = options.n
    verb = "choose " if match["noun"] and match["noun"].startswith("cho") and match["noun"] != "choice" else ""
    if letter := match["letter"]:
        return verb + _label(ord(letter.upper()) - ord("A"), n)
    word = match["counted"] or match["number"] or match["ordinal"] or match["short"] or match["lone"] or match["alone"]
    if word in ("former", "latter"):
        return _label(int(word == "latter"), n) if n == 2 else match[0]
    if word == "last":
        return _label(n - 1, n)
    return verb + _label((_NUMERALS[word] if word in _NUMERALS else int(word[:6])) - 1, n)


def _by_itself(match: re.Match[str], options: Offer) -> str:
    """Replace a letter or a number that stands by itself where it is a label, not an article, an initial or a count."""
    name, text = match[0], match.string
    if options.labels != ("numbers" if name[0].isdigit() else "letters"):
        return name
    before, after = text[max(0, match.start() - _BEFORE) : match.start()], text[match.end() : match.end() + _BEFORE]
    is_alone = bool(_ALONE_BEFORE.search(before) and _ALONE_AFTER.match(after))
    is_called = bool(_CALLED.search(before))
    if name.isdigit():
        begins = _ALONE_BEFORE.search(before) and (
            re.match(rf"[).: -]+{TEXT}", after) or re.match(rf"\W+(?:{_JOINS})\b", after)
        )
        is_label = is_alone or is_called or bool(begins)
        return _label(int(name[:6]) - 1, options.n) if is_label else name
    place = ord(name.upper()) - ord("A")
    is_bracketed = before.endswith(("(", "[")) and after.startswith((")", "]"))
    is_listed = bool(_BEGINS.search(before) and _LISTED.match(after))
    if name.islower():
        is_label = (
            is_alone
            or is_bracketed
            or (is_listed and after[0] in ").:")
            or (bool(is_called or _CALLED_SMALL.search(before)) and bool(_GOVERNS.match(after)))
        )
    else:
        is_label = is_alone or is_bracketed or is_listed or is_called or place < options.n
        is_label = is_label and not (name == "A" and _READ_ON.match(after))
    return _label(place, options.n) if is_label else name


def _merged(match: re.Match[str]) -> str:
    """Return a single mark for a label with its text, or a contradiction. A text that goes on is a sentence about it."""
    label, text = match["label"] or match["label_last"], match["text"] or match["text_first"]
    if place_of(label) == place_of(text):
        return label + (match["on"] or "")
    if match["on"] and not match["link"]:
        return match[0]
    return CONTRADICTION
