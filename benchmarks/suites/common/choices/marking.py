"""Replaces whatever names an offered option, by text, label or wording of "unknown", by a mark of its place."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.suites.common.choices.offers import (
    CONTRADICTION,
    LABEL,
    NO_MARK,
    TEXT,
    Offer,
    label_mark,
    place_of,
    text_mark,
)
from benchmarks.suites.common.choices.plain import WORDS
from benchmarks.suites.common.choices.undetermined import SAYS_UNDETERMINED

_CARDINALS = {"one": 1, "two": 2, "three": 3, "four": 4}
_NUMERALS = _CARDINALS | {"first": 1, "second": 2, "third": 3, "fourth": 4, "former": 1, "middle": 2}
_OF_HOW_MANY = {"former": 2, "latter": 2, "middle": 3}
_BY_NOUN = re.compile(
    r"(?:\bnumber |\b(?:no|nr)\.? ?(?=\d)|#(?=\d))(?P<counted>\d|one|two|three|four)(?!\w|\.\d)"
    r"|\b(?P<noun>option|opt|choice|alternative|choose|chose)[ :#(\[.-]*(?:is )?(?:"
    r"(?P<number>\d+(?!\w|\.\d)|(?<!choose )(?:one|two|three|four)\b)"
    r"|(?P<letter>[A-Hb-h]|a(?=[).:,]|[^\w\n]*$| i (?:think|guess)))(?![\w']))"
    r"|\b(?:the )?(?P<ordinal>first|second|third|fourth|last|middle|\dst|\dnd|\drd|\dth) "
    r"(?:one|option|choice|alternative|answer|(?P<person>person|man|woman|name|subject))\b"
    r"|^\W*(?P<alone>first|second|third|last|1st|2nd|3rd|one|two|three|four)(?=\W*$)"
    r"|\bthe (?P<lone>first|second|third|fourth|former|latter|last|1st|2nd|3rd)"
    r"(?: of the (?:two|three|options|choices)\b|(?=[^\w\n]*$|[.,;:!)]))",
    re.MULTILINE,
)
_BY_ITSELF = re.compile(r"(?<![\w'.%$-])(?:[A-Ha-h](?![\w'])|\d+(?![\w%]|\.\d))")
_NEAR = 48
"""Characters on each side of a possible label that tell whether it is a label."""
_GOVERNED = (
    r"(?:is|was|both|instead|because|since|as|and|or|nor|but|not|for|due|given|would|seems|fits|relates|over|than|rather"
    r"|vs|makes|works|looks|sounds|does|did)\b"
)
_ALONE_BEFORE, _ALONE_AFTER = re.compile(r"(?:^|\n)[^\w\n]*$"), re.compile(r"[^\w\n]*(?:\n|$)")
_LISTED_BEFORE, _LISTED_AFTER = re.compile(r"(?:^|[\n.!?:;,(\[])[^\w\n]*$"), re.compile(r"\s?[).:\]]|,\s|\s+-")
_CALLED = re.compile(
    r"\b(?:answer|letter|number|no\.?|pick|select|choose|statement|sentence)s?[ :#(\[-]*(?:is|was|be)?[ :#(\[-]*$"
)
_CALLED_SMALL = re.compile(r"(?:'s|\b(?:is|be|with|pick|select|choose|say|guess|think|definitely|probably))[ :(\[]*$")
_IS_RIGHT = re.compile(r"\s+is (?:correct|right|the (?:answer|best|correct|right)|my (?:answer|pick|choice))\b")
_TAG = (
    r"(?:it(?: i|')s\b|(?:i (?:guess|think|suppose|believe|reckon)|obviously|definitely|probably|please|pls|then"
    r"|for sure|lol|most likely|all the way|final answer)\b[^\w\n]*(?:\n|$))"
)
_ENDS_OR_GOVERNS = re.compile(rf"[^\w\n]*(?:\n|$)|[).:,\]]|\s+(?:{_GOVERNED}|{_TAG})")
_IS_ARTICLE = re.compile(rf" +(?!{_GOVERNED}|{_TAG})[a-z]")
_COUNTED = re.compile(
    r"(?:\d ?[/+-]? ?|[/+] ?|\b(?:step|level|page|chapter|note|attempt|question|scored?|rat(?:ed?|ing)(?: it)?|part"
    r"|confidence|certainty|version|(?<!instead )of|in|an?|to|has|have|are|top|stage|section|line|example|item|years?)"
    r"[ :=]*)$",
    re.IGNORECASE,
)
_AFTER_NUMBER = re.compile(
    rf"[^\w\n%]*(?:\n|$)|\s?[!?(;&|+>]|[,:] |\s+(?:-|{_GOVERNED}|{_TAG}"
    r"|(?:fit|gets|could|might|may|isn't|doesn't)\b)"
)
_BEFORE_TEXT = re.compile(rf"[).: -]+{TEXT}|\W+{_GOVERNED}")
_LIST_MARK = re.compile(rf"(?:(?<![\w'])[A-Ha-h]|(?<![\w.])\d{{1,2}})[).:\]]+[(\[ ]*(?={TEXT})")
_LABEL_AND_TEXT = re.compile(
    rf"(?P<label>{LABEL})[ ).:,\](\[=>-]*"
    r"(?P<link>(?:(?:it is|it's|it was|that is|is|namely|i\.e\.|the answer is)[\s,:]+)*)"
    rf"(?:(?:the|an?) )?(?P<text>{TEXT})(?P<on>,? ?\w)?"
    rf"|(?P<text_first>{TEXT}),?\s*[(\[]\s*(?:answer|option|choice)?\s*(?P<label_last>{LABEL})\s*[)\]]"
)


def with_labels(text: str, options: Offer) -> str:
    """Return the text with a mark in place of each label, and without the letters and numbers of a mere list."""
    text = _BY_NOUN.sub(lambda match: _by_noun(match, options), text)
    text = _BY_ITSELF.sub(lambda match: _by_itself(match, options), text)
    return _LIST_MARK.sub("", text)


def merged(text: str) -> str:
    """Return the text with a single mark in place of a label and its text: CONTRADICTION if they disagree."""
    return _LABEL_AND_TEXT.sub(_merged, text)


def _by_noun(match: re.Match[str], options: Offer) -> str:
    """Return the mark for "option B", "choice 2", "the latter", which tell a place whatever labels are shown."""
    if match["person"] and options.labels != "none":
        return match[0]
    verb = "choose " if (match["noun"] or "").startswith(("choose", "chose")) else ""
    if letter := match["letter"]:
        return verb + label_mark(_place_of_letter(letter), options.n)
    word = next(filter(None, map(match.group, ("counted", "number", "ordinal", "alone", "lone"))))
    if _OF_HOW_MANY.get(word, options.n) != options.n or (match["alone"] in _CARDINALS and options.labels != "numbers"):
        return match[0]
    if word in ("last", "latter"):
        return label_mark(options.n - 1, options.n)
    number = _NUMERALS.get(word) or int(re.sub(r"\D", "", word)[:6])
    return verb + label_mark(number - 1, options.n)


def _by_itself(match: re.Match[str], options: Offer) -> str:
    """Return the mark for a letter or a number that is a label, not an article, an initial or a count."""
    name, text = match[0], match.string
    if options.labels != ("numbers" if name.isdigit() else "letters"):
        return name
    before, after = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
    begins_line = bool(_ALONE_BEFORE.search(before))
    is_label = (begins_line and bool(_ALONE_AFTER.match(after))) or bool(_CALLED.search(before))
    if name.isdigit():
        is_label |= begins_line and bool(_BEFORE_TEXT.match(after))
        if 0 < int(name[:6]) <= options.n and not _COUNTED.search(before):
            is_label |= bool(_AFTER_NUMBER.match(after)) or (not begins_line and after[:2] in (". ", ") "))
        return label_mark(int(name[:6]) - 1, options.n) if is_label else name
    place = _place_of_letter(name)
    is_listed = bool(_LISTED_BEFORE.search(before) and _LISTED_AFTER.match(after))
    is_bracketed = before.endswith(("(", "[")) and after.startswith((")", "]"))
    if name.isupper():
        is_label |= is_listed or place < options.n
        is_label &= name != "A" or not _IS_ARTICLE.match(after)
    else:
        is_called = bool(_CALLED.search(before) or _CALLED_SMALL.search(before))
        is_label = begins_line and bool(_ALONE_AFTER.match(after) or _IS_RIGHT.match(after))
        is_label |= (is_listed and after[0] in ").:") or (is_called and bool(_ENDS_OR_GOVERNS.match(after)))
    return label_mark(place, options.n) if is_label or is_bracketed else name


def _place_of_letter(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


def _merged(match: re.Match[str]) -> str:
    """Return the mark of a label with its text. A text of another option that goes on is a sentence about it."""
    label, text = match["label"] or match["label_last"], match["text"] or match["text_first"]
    if place_of(label) == place_of(text):
        return label + (match["on"] or "")
    return match[0] if match["on"] and not match["link"] else CONTRADICTION


MIN_CUT = 4
"""Shortest beginning of an option, in characters, that ends within a word and may stand for it."""


class Marked(NamedTuple):
    """A plain reply in lower case, but for single letters, with a mark in place of each mention of an option."""

    text: str
    is_completed: bool = False
    """True if a mark stands for words that only begin, or in prose end, an option."""


def marked(text: str, options: Offer) -> Marked:
    """Return a plain reply with its marks."""
    words = _Words(text)
    for form, place in _forms_in(words.joined, options):
        n_words = form.count(" ") + 1
        for start in mentions(words.joined, form):
            if not words.is_announcement(form, start) and not (form in options.parts and words.is_indefinite(start)):
                words.replace(start, n_words, _mark_of(form, place, words, start, options))
    if options.undetermined is not None:
        for match in SAYS_UNDETERMINED.finditer(words.joined):
            start = words.joined.count(" ", 0, match.start())
            words.replace(start, match[0].count(" ") + 1, f"it is {text_mark(options.undetermined)}")
    with_marks = with_labels(words.rendered(options), options)
    completed = _completed(with_marks, options)
    return Marked(merged(completed), completed != with_marks)


_NAMES_LABEL = re.compile(r"(?:\b(?:option|opt|choice|alternative)s?[ :#(\[.-]*|#)$", re.IGNORECASE)
_FOLLOWS_LABEL = re.compile(r"(?:(?:^|\n)\W*|\b(?:option|choice) ?)\d[ ).:(\]-]+$", re.IGNORECASE)
_BEFORE_NUMBER = re.compile(r"[).:][ (]*\d")


def _mark_of(form: str, place: int, words: "_Words", start: int, options: Offer) -> str:
    """Return the mark of an option's words; none for a number that is a label; CONTRADICTION if it may be either."""
    if not form.isdigit() or not 0 < int(form) <= options.n:
        return text_mark(place)
    before, after = words.around(start)
    if _NAMES_LABEL.search(before):
        return ""
    if options.labels != "numbers" or int(form) == place + 1 or _FOLLOWS_LABEL.search(before):
        return text_mark(place)
    return "" if _BEFORE_NUMBER.match(after) else CONTRADICTION


def mentions(words: str, form: str) -> Iterator[int]:
    """Yield the places, in words, where a form stands in normalised words."""
    padded, wanted = f" {words} ", f" {form} "
    at, n_words, counted = padded.find(wanted), 0, 0
    while at >= 0:
        n_words += padded.count(" ", counted, at)
        counted = at
        yield n_words
        at = padded.find(wanted, at + 1)


def _forms_in(words: str, options: Offer) -> Iterator[tuple[str, int]]:
    """Yield the forms that stand in the words; before them, those that stand there within the whole sentence."""
    padded = f" {words} "
    present = [(form, place) for form, place in options.forms if f" {form} " in padded]
    if options.frame is not None:
        for form, place in present:
            whole = " ".join(filter(None, (options.frame[0], form, options.frame[1])))
            yield (words if padded in f" {whole} " else whole), place
    yield from present


_ANNOUNCING = frozenset({"answer", "choice", "option", "word", "response", "result"})
_ANNOUNCES = re.compile(r"\W*:|\s+(?:is|would)\b")
_AFTER_IS = frozenset({"the", "a", "an", "not", "more", "most", "probably", "likely", "who"})
_LETTERS = frozenset("ABCDEFGH")
_ENDS_NO_SENTENCE = re.compile(r"[.,]? *(?:\n|$)|,| +[a-z❌✗✘🚫✅✓✔☑]")
_CONTINUES = re.compile(r" (?:and|while|so|as|when|but|to|with)\b")


class _Words:
    """The words of a reply, some of them replaced by marks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._matches = list(WORDS.finditer(text))
        self._words = [match[0].casefold() for match in self._matches]
        self.joined = " ".join(self._words)
        self._marks: dict[int, tuple[int, str]] = {}
        """Number of words that a mark replaces, and the mark, by the place of the first word."""
        self._taken = [False] * len(self._words)

    def is_announcement(self, form: str, start: int) -> bool:
        """Return whether the word announces an answer, although an option is the same word."""
        return form in _ANNOUNCING and _ANNOUNCES.match(self._text, self._matches[start].end()) is not None

    def is_indefinite(self, start: int) -> bool:
        return start > 0 and self._words[start - 1] in ("a", "an")

    def around(self, start: int) -> tuple[str, str]:
        """Return the text near a word, before and after it."""
        begin, end = self._matches[start].span()
        return self._text[max(0, begin - _NEAR) : begin], self._text[end : end + _NEAR]

    def replace(self, start: int, n_words: int, mark: str) -> None:
        """Replace words that have no mark yet and are not a part of a compound, unless the mark is empty."""
        end = start + n_words
        before = self._between(start - 1) if start else ""
        after = self._between(end - 1) if end < len(self._words) else ""
        following = self._words[end : end + 2]
        is_contracted = after == "'" and following[0] == "s"
        is_possessive = is_contracted and len(following) > 1 and following[1] not in _AFTER_IS
        is_compound = "-" in (before, after) or (after == " " and following[0].startswith("american"))
        if not mark or is_compound or is_possessive or any(self._taken[start:end]):
            return
        end += is_contracted
        self._taken[start:end] = [True] * (end - start)
        self._marks[start] = end - start, mark

    def rendered(self, options: Offer) -> str:
        """Return the text with its marks, in lower case but for single letters."""
        parts, at, number = list[str](), 0, 0
        while number < len(self._words):
            match = self._matches[number]
            n_words, mark = self._marks.get(number, (1, ""))
            word = match[0] if match[0] in _LETTERS else self._words[number]
            parts += [self._text[at : match.start()], mark or word]
            number += n_words
            at = self._matches[number - 1].end()
            if mark and mark != CONTRADICTION:
                end = options.ends[place_of(mark[-1])]
                if end and self._text.startswith(end, at):
                    at += end == "?" or _ENDS_NO_SENTENCE.match(self._text, at + 1) is not None
                if not options.is_prose and n_words > 2 and _CONTINUES.match(self._text, at):
                    parts.append(",")
        return "".join([*parts, self._text[at:]])

    def _between(self, number: int) -> str:
        return self._text[self._matches[number].end() : self._matches[number + 1].start()]


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
    begun = words if is_long else f"{words} "
    places = {
        place
        for form, place in options.forms
        if form.startswith(begun) or (options.is_prose and is_long and form.endswith(f" {words}"))
    }
    return text[:at] + text_mark(places.pop()) if len(places) == 1 else text
