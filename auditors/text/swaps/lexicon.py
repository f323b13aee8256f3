"""The lexicon of swaps: per axis, rows of words that mean the same of different groups.

A row is a slot; a word is exchanged for the form of the same slot in another group, so that every exchange can be
undone. A slot without a form for a group cannot be swapped towards it. What a slot needs of its surroundings is its
kind. Kinds of cue: nouns, adjectives, pronouns, titles, given names (auditors.text.names) and phrases.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from auditors.text.names import NAMES
from auditors.text.swaps.words import by_axis

Kind = Literal["noun", "nouns", "adjective", "pronoun", "title", "name", "phrase"]
"""noun: one person. nouns: several. adjective: only beside a word for a person. phrase: after such a word."""


class Slot(NamedTuple):
    kind: Kind
    forms: Mapping[str, str]
    """Group to its form, in the spelling of the middle of a sentence."""
    is_generic: bool = False
    """May name someone whom another word of the text names too: "my sister is a woman who ..."."""


class Form(NamedTuple):
    """One word or phrase of the lexicon: where it stands in it."""

    text: str
    group: str
    slot: Slot


def _rows(kind: Kind, groups: tuple[str, ...], *rows: str, is_generic: bool = False) -> Iterator[Slot]:
    """PrioritySemaphore from rows of forms parted by commas, "-" where a group has none."""
    for row in rows:
        forms = zip(groups, (one.strip() for one in row.split(",")), strict=True)
        yield Slot(kind, {group: form for group, form in forms if form != "-"}, is_generic)


_GENDER = ("man", "woman")
_RACE = ("white", "black", "asian", "latin")
_RELIGION = (
    *("christians", "muslims", "hindus", "buddhists", "sikhs", "spiritists", "jews", "bahais", "jains"),
    *("shintoists", "atheists", "agnostics"),
)
_NATIONALITY = (
    *("indians", "chinese", "americans", "indonesians", "pakistanis", "nigerians", "brazilians", "russians"),
    *("australians", "germans"),
)
_POLITICS = (
    *("republicans", "democrats", "liberals", "conservatives", "moderates", "socialists", "communists"),
    *("progressives", "anarchists", "nationalists"),
)
_ORIENTATION = ("heterosexuals", "gays", "lesbians", "bisexuals", "asexuals", "pansexuals", "queer_people")
_ABILITY = ("disabled", "abled")
_AGE = ("young", "middle", "old")
_BODY = ("thin", "normal", "fat")


def _given_names(axis: str) -> Iterator[Slot]:
    """One slot for each place: by gender within a race, by race within a gender."""
    for fixed in _RACE if axis == "gender" else _GENDER:
        cells = [(one, (fixed, one) if axis == "gender" else (one, fixed)) for one in SWAPPED[axis]]
        for place in range(20):
            yield Slot("name", {group: NAMES[cell][place] for group, cell in cells})


SWAPPED: dict[str, tuple[str, ...]] = {
    "gender": _GENDER,
    "religion": _RELIGION,
    "nationality": _NATIONALITY,
    "age": _AGE,
    "politics": _POLITICS,
    "ability": _ABILITY,
    "sexual_orientation": _ORIENTATION,
    "socioeconomic": ("low", "high"),
    "race": _RACE,
    "body_type": _BODY,
}
"""Axis to the groups that its slots have forms for; all groups of `auditors.text.identity` but "questioning people"."""

SLOTS: dict[str, tuple[Slot, ...]] = {
    "gender": (
        *_rows("noun", _GENDER, "man, woman", "boy, girl", "guy, gal", "gentleman, lady", is_generic=True),
        *_rows("nouns", _GENDER, "men, women", "boys, girls", "guys, gals", "gentlemen, ladies", "males, females"),
        *_rows("adjective", _GENDER, "male, female"),
        *_rows(
            *("noun", _GENDER, "father, mother", "dad, mom", "daddy, mommy", "brother, sister", "son, daughter"),
            *("uncle, aunt", "husband, wife", "boyfriend, girlfriend", "nephew, niece", "grandfather, grandmother"),
            *("grandpa, grandma", "grandson, granddaughter", "stepfather, stepmother", "stepson, stepdaughter"),
            *("stepbrother, stepsister", "godfather, godmother", "groom, bride", "widower, widow", "fiancé, fiancée"),
            *("policeman, policewoman", "businessman, businesswoman", "chairman, chairwoman"),
            *("salesman, saleswoman", "spokesman, spokeswoman", "congressman, congresswoman", "waiter, waitress"),
        ),
        *_rows(
            *("nouns", _GENDER, "fathers, mothers", "dads, moms", "brothers, sisters", "sons, daughters"),
            *("uncles, aunts", "husbands, wives", "boyfriends, girlfriends", "nephews, nieces"),
            *("grandfathers, grandmothers", "policemen, policewomen", "businessmen, businesswomen"),
        ),
        *_rows("title", _GENDER, "Mr, Ms", is_generic=True),
        *_rows("pronoun", _GENDER, "he, she", "himself, herself", "him, her", "his, her", "his, hers"),
        *_given_names("gender"),
    ),
    "religion": (
        *_rows(
            *("nouns", _RELIGION),
            "Christians, Muslims, Hindus, Buddhists, Sikhs, Spiritists, Jews, Baháʼís, Jains, Shintoists, atheists, "
            "agnostics",
        ),
        *_rows(
            *("noun", _RELIGION),
            "Christian, Muslim, Hindu, Buddhist, Sikh, Spiritist, Jew, Baháʼí, Jain, Shintoist, atheist, agnostic",
        ),
        *_rows(
            *("adjective", _RELIGION),
            "Christian, Muslim, Hindu, Buddhist, Sikh, Spiritist, Jewish, Baháʼí, Jain, Shintoist, atheist, agnostic",
        ),
    ),
    "nationality": (
        *_rows(
            *("nouns", _NATIONALITY),
            "Indians, -, Americans, Indonesians, Pakistanis, Nigerians, Brazilians, Russians, Australians, Germans",
        ),
        *_rows(
            *("adjective", _NATIONALITY),
            "Indian, Chinese, American, Indonesian, Pakistani, Nigerian, Brazilian, Russian, Australian, German",
        ),
        *_rows(
            *("noun", _NATIONALITY),
            "Indian, -, American, Indonesian, Pakistani, Nigerian, Brazilian, Russian, Australian, German",
        ),
        *_rows(
            *("phrase", _NATIONALITY),
            "from India, from China, from the United States, from Indonesia, from Pakistan, from Nigeria, from Brazil, "
            "from Russia, from Australia, from Germany",
        ),
    ),
    "age": (
        *_rows("adjective", _AGE, "young, middle-aged, old", "younger, -, older"),
        *_rows("nouns", _AGE, "young people, middle-aged people, old people", "younger people, -, older people"),
        *_rows("phrase", _AGE, "in my twenties, in my forties, in my seventies"),
        *_rows("phrase", _AGE, "in their twenties, in their forties, in their seventies"),
    ),
    "politics": (
        *_rows(
            *("nouns", _POLITICS),
            "Republicans, Democrats, liberals, conservatives, moderates, socialists, communists, progressives, "
            "anarchists, nationalists",
        ),
        *_rows(
            *("adjective", _POLITICS),
            "Republican, Democratic, liberal, conservative, moderate, socialist, communist, progressive, anarchist, "
            "nationalist",
        ),
        *_rows(
            *("noun", _POLITICS),
            "Republican, Democrat, liberal, conservative, moderate, socialist, communist, progressive, anarchist, "
            "nationalist",
        ),
    ),
    "ability": (
        *_rows("adjective", _ABILITY, "disabled, non-disabled", "blind, sighted", "deaf, hearing"),
        *_rows("adjective", _ABILITY, "autistic, non-autistic"),
        *_rows("phrase", _ABILITY, "with disabilities, without disabilities", "with autism, without autism"),
        *_rows("phrase", _ABILITY, "with a disability, without a disability"),
    ),
    "sexual_orientation": (
        *_rows(
            *("nouns", _ORIENTATION),
            "heterosexuals, gays, lesbians, bisexuals, asexuals, pansexuals, -",
        ),
        *_rows("adjective", _ORIENTATION, "straight, gay, -, bisexual, asexual, pansexual, queer"),
        *_rows("adjective", _ORIENTATION, "heterosexual, homosexual, -, -, -, -, -", "-, -, lesbian, -, -, -, -"),
        *_rows(
            "nouns",
            _ORIENTATION,
            "straight people, gay people, -, bisexual people, asexual people, pansexual people, queer people",
        ),
    ),
    "socioeconomic": (
        *_rows("adjective", ("low", "high"), "poor, rich", "low-income, high-income", "working-class, upper-class"),
        *_rows("adjective", ("low", "high"), "working class, upper class"),
        *_rows("phrase", ("low", "high"), "from a poor family, from a rich family"),
    ),
    "race": (
        *_rows("adjective", _RACE, "White, Black, Asian, Hispanic"),
        *_rows("adjective", _RACE, "Caucasian, African American, Asian American, Hispanic American"),
        *_rows("adjective", _RACE, "-, African-American, Asian-American, Hispanic-American"),
        *_rows("adjective", _RACE, "European, African, -, Latin American"),
        *_rows("nouns", _RACE, "Caucasians, African Americans, Asian Americans, Hispanic Americans"),
        *_rows("nouns", _RACE, "Europeans, Africans, -, Latin Americans", "-, -, Asians, Hispanics"),
        *_given_names("race"),
    ),
    "body_type": (
        *_rows("adjective", _BODY, "thin, -, fat", "underweight, normal-weight, overweight", "skinny, -, chubby"),
        *_rows("adjective", _BODY, "bony, muscular, obese"),
        *_rows("phrase", _BODY, "of slim build, of average build, of heavy build"),
    ),
}
"""Axis to its slots. Earlier slots win where a word stands in two of them and the surroundings do not tell."""


def _table(slots: tuple[Slot, ...]) -> dict[str, tuple[Form, ...]]:
    found: dict[str, list[Form]] = {}
    for slot in slots:
        for group, text in slot.forms.items():
            found.setdefault(text.lower(), []).append(Form(text, group, slot))
    return {text: tuple(forms) for text, forms in found.items()}


FORMS: dict[str, dict[str, tuple[Form, ...]]] = {axis: _table(slots) for axis, slots in SLOTS.items()}
"""Axis to lower-case form to the places it has in the lexicon."""

UNPAIRED = by_axis("unpaired")
"""Words of an axis that have no counterpart here: a text that holds one is left alone."""

BOUND = by_axis("bound")
"""Words that tie a text to one group of the axis: the same text about another group would be a strange one."""

IDIOMS = by_axis("idioms", "\n")
"""Phrases in which a word of the axis names nobody."""


def pattern(axis: str) -> re.Pattern[str]:
    """Finds every form of an axis as a whole word or phrase, in any case, the longest first."""
    return re.compile(rf"(?<!\w){_any_of(FORMS[axis])}(?!\w)", re.IGNORECASE)


def _any_of(texts: Iterable[str]) -> str:
    """A regular expression for these texts that shares their beginnings: hundreds of plain alternatives are slow."""
    tails: dict[str, list[str]] = {}
    for text in texts:
        tails.setdefault(text[:1], []).append(text[1:])
    branches = [re.escape(first) + _any_of(rest) for first, rest in sorted(tails.items()) if first]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)})" + ("?" if "" in tails else "")


PATTERNS: dict[str, re.Pattern[str]] = {axis: pattern(axis) for axis in SLOTS}
