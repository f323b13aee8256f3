"""Replaces whatever names an offered option in a reply by a mark of its place, so that no later rule sees which it is.

A reply names an option by its text, by its label, or, where an option says that the context does not tell, by any
wording of that.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.suites.common.choices.labels import merged, with_labels
from benchmarks.suites.common.choices.offers import LABEL, NO_MARK, TEXT, Offer, place_of, text_mark
from benchmarks.suites.common.choices.plain import WORDS
from benchmarks.suites.common.choices.undetermined import SAYS_UNDETERMINED

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
                words.replace(start, n_words, text_mark(place))
    if options.undetermined is not None:
        for match in SAYS_UNDETERMINED.finditer(words.joined):
            start = words.joined.count(" ", 0, match.start())
            words.replace(start, match[0].count(" ") + 1, f"it is {text_mark(options.undetermined)}")
    with_marks = with_labels(words.rendered(options), options)
    completed = _completed(with_marks, options)
    return Marked(merged(completed), completed != with_marks)


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
_ENDS_NO_SENTENCE = re.compile(r"[.,]? *(?:\n|$)|,| +[a-z]")
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

    def replace(self, start: int, n_words: int, mark: str) -> None:
        """Replace words that have no mark yet and are not a part of a compound."""
        end = start + n_words
        before = self._between(start - 1) if start else ""
        after = self._between(end - 1) if end < len(self._words) else ""
        following = self._words[end : end + 2]
        is_contracted = after == "'" and following[0] == "s"
        is_possessive = is_contracted and len(following) > 1 and following[1] not in _AFTER_IS
        is_compound = "-" in (before, after) or (after == " " and following[0].startswith("american"))
        if is_compound or is_possessive or any(self._taken[start:end]):
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
            parts += [self._text[at : match.start()], mark or (match[0] if len(match[0]) == 1 else self._words[number])]
            number += n_words
            at = self._matches[number - 1].end()
            if mark:
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
