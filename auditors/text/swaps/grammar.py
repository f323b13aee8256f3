"""English grammar for swaps, from short lists: "her" and "his", adjectives of persons, "a" or "an"; else "not sure"."""

import re
from typing import Literal, NamedTuple

from auditors.text.swaps.words import WORDS

Role = Literal["determiner", "object", "alone"]
"""Role of "her": determiner (her dog) or object (saw her). Role of "his": determiner (his dog) or alone (it is his)."""


class Around(NamedTuple):
    """The words next to a place, lower-case; "" where a sentence or text ends, "?" where anything else stands."""

    before_that: str
    before: str
    after: str
    after_that: str


_FUNCTION = WORDS["function"]
_UNCLEAR = WORDS["unclear"]
_LY = WORDS["no_adverbs"]
_PREPOSITIONS = WORDS["before_a_determiner"]
_TWO_OBJECTS = WORDS["two_objects"]
_OWNED = WORDS["owned"]
_UNCOUNTED = WORDS["uncounted"] | WORDS["also_verbs"]
_NAMING = WORDS["naming"]
_DESCRIBING = WORDS["describing"]
PEOPLE = WORDS["people"]
"""Words for persons that an adjective may describe."""
_SELF = WORDS["subjects"]
_BE = WORDS["forms_of_be"]
_ENDING = WORDS["clause_ends"]
_TIMES, _MEASURES, _PARTICLES, _IN_COMPOUNDS, _TAKING = (
    WORDS[name] for name in ("times", "measures", "particles", "in_compounds", "taking")
)
_AT_THE_END = WORDS["at_the_end"]
_BETWEEN = WORDS["between"] | _DESCRIBING
_CALLS = WORDS["calls"]
_NO_SINGLE_PERSON = WORDS["no_single_person"] | _CALLS
_BEFORE_A_VERB = WORDS["before_a_verb"]
DETERMINERS = WORDS["determiners"]

_WORD = re.compile(r"[^\W_]++(?:['-][^\W_]++)*+")
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")


def around(text: str, start: int, end: int) -> Around:
    """Two words on each side of a place."""
    before, at = _before(text, start)
    after, to = _after(text, end)
    return Around(_before(text, at)[0], before, after, _after(text, to)[0] if after not in ("", "?") else "")


def role_of_her(near: Around) -> Role | None:
    """Return the role of "her" at this place; None when it may be either."""
    after = near.after
    if after == "own":
        return "determiner"
    if _ends_its_clause(near):
        return "object"
    if after == "?" or after in _UNCLEAR or after.isdigit():
        return None
    if after == "" or after in _FUNCTION:
        return "object"
    if after.endswith("ly") and after not in _LY:
        return "object" if near.after_that == "" or near.after_that in _FUNCTION else None
    if near.before in _TWO_OBJECTS or near.before_that in ("listen", "look", "looked", "listened"):
        is_owned = after in _OWNED and after not in _UNCOUNTED and near.before not in _NAMING
        ends_there = near.after_that == "" or near.after_that in _FUNCTION | _UNCLEAR  # not "gave her cat food"
        return "determiner" if is_owned and ends_there else None
    if _is_owned(after) or _is_owned(near.after_that):
        return "determiner"
    if after.endswith("ing"):  # "without her knowing"
        return None
    is_predicate = near.before in _BE | {"it's", "that's"} and near.after_that in _ENDING | {""}
    is_object = near.before in _TAKING and after not in _UNCOUNTED and near.after_that in _FUNCTION | {""}
    return "determiner" if is_predicate or is_object or near.before in _PREPOSITIONS | {""} else None


def role_of_his(near: Around) -> Role | None:
    """Return the role of "his" at this place; None when it may be either."""
    if near.after == "own":
        return "determiner"
    if _ends_its_clause(near):
        return "alone"
    if near.after == "?" or near.after in _UNCLEAR or near.after.isdigit():
        return None
    if near.after == "" or near.after in _FUNCTION:
        return "alone"
    if near.before == "of" and not _is_owned(near.after):  # "a friend of his found it"
        return "alone" if near.before_that in PEOPLE else None
    return "determiner"


def speaks_of_a_person(near: Around) -> bool | None:
    """Return whether an adjective here describes someone (before a person's word, or after "I am"); None if unclear."""
    if _root(near.after) in PEOPLE:
        return True
    if near.after in _BETWEEN and _root(near.after_that) in PEOPLE:
        return True
    return _is_said_of_someone(near) or None


def stands_for_a_person(near: Around) -> bool | None:
    """Return True if a noun that is also an adjective ("a German") ends its phrase after an article; else None."""
    has_article = near.before in ("a", "an") or (near.before in ("as", "another") and near.after != "?")
    return True if has_article and (near.after == "" or near.after in _FUNCTION) else None


def is_a_single_person(near: Around, is_generic: bool) -> bool:
    """Return whether "man", "mother" and the like name a person here: not in "to man the desk", "thanks man"."""
    if near.before in _BEFORE_A_VERB and near.after in DETERMINERS:
        return False
    return not is_generic or bool(near.before and near.before not in _NO_SINGLE_PERSON)


def is_called(near: Around) -> bool:
    """Return whether a word in the plural calls on somebody: "hey guys", "Ladies, ..."."""
    return near.before in _CALLS or (not near.before and not near.after)


def article_for(word: str) -> str:
    """The indefinite article before one of the lexicon's words, as it is spoken."""
    return "an" if word[:1].lower() in "aeiou" and not word.lower().startswith(("eu", "uni")) else "a"


def _ends_its_clause(near: Around) -> bool:
    """Return whether a clause ends after "her" or "his", or with an adverb of time."""
    is_time = near.after in ("every", "each") and near.after_that in _TIMES
    is_measure = near.after in ("so", "very") and near.after_that in _MEASURES
    is_place = near.after in _PARTICLES and (
        near.after_that in ("", "there", "here")
        or (near.after != "up" and near.after_that in _FUNCTION - _IN_COMPOUNDS)
    )
    return (
        is_time
        or is_measure
        or is_place
        or (near.after in _AT_THE_END and near.after_that in ("", "and", "but", "because", "when", "while"))
    )


def _is_said_of_someone(near: Around) -> bool:
    said_by = near.before in ("i'm", "we're", "he's", "she's", "they're", "who's", "who're") or (
        near.before in _BE and (near.before_that in _SELF or near.before_that in PEOPLE)
    )
    return said_by and (near.after == "" or near.after in _ENDING)


def _is_owned(word: str) -> bool:
    return word in _OWNED or word.removesuffix("s") in _OWNED or _root(word) in PEOPLE


def _root(word: str) -> str:
    return re.sub(r"'s?$", "", word)


def _after(text: str, at: int) -> tuple[str, int]:
    """The next word; "" when punctuation or the end comes first, "?" when a bracket, quote or dash does."""
    rest = text[at : at + 200]
    gap = re.match(r"\s*", rest)
    begin = gap.end() if gap else 0
    if begin == len(rest) or rest[begin] in ".,;:!?)]}…" or _BLANK_LINE.search(rest[:begin]):
        return "", at
    word = _WORD.match(rest, begin)
    return (word[0].lower(), at + word.end()) if word and begin else ("?", at)


def _before(text: str, at: int) -> tuple[str, int]:
    """The word before; "" when punctuation or the beginning comes first."""
    head = text[max(0, at - 200) : at]
    stripped = head.rstrip()
    if not stripped or stripped == head or _BLANK_LINE.search(head[len(stripped) :]):
        return "", at
    words = _LAST.search(stripped)
    return (words[0].lower(), at - len(head) + words.start()) if words else ("", at)


_LAST = re.compile(r"(?<![^\W_])(?<![^\W_]['-])[^\W_]++(?:['-][^\W_]++)*+$")
