"""The plain form of a text: what is replaced, what is left out, the way back, and time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.text.identity import groups_mentioned, mentions_identity
from auditors.text.plain import plain_text
from auditors.text.swaps.masking import masked
from tests.support.processor_time import grows_in_proportion

PLAIN = [
    ("emphasis", "Why do _women_ earn **less**?", "Why do women earn less?"),
    ("inside a word", "her_name = 2*x, f(*args)", "her_name = 2*x, f(args)"),
    ("hyphens", "African\u2011American, co\u2010op, A\u2013B", "African-American, co-op, A-B"),
    ("blanks", "a\u00a0b\u202fc\u2003d", "a b c d"),
    ("apostrophes", "women\u2019s, Bah\u00e1\u02bc\u00eds", "women's, Bahá'ís"),
    ("without width", "wo\u00admen and m\u200ben", "women and men"),
    ("full width", "\uff57\uff4f\uff4d\uff45\uff4e", "women"),
    ("mathematical", "\U0001d430\U0001d428\U0001d426\U0001d41e\U0001d427", "women"),
    ("ligature", "\ufb01anc\u00e9", "fiancé"),
    ("joiners", "wo\u200dmen \U0001f469\u200d\U0001f4bc", "women \U0001f469\u200d\U0001f4bc"),
    ("quotation marks stay", "\u201cmen\u201d \u00abmen\u00bb", "\u201cmen\u201d \u00abmen\u00bb"),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in PLAIN], ids=[row[0] for row in PLAIN])
def test_plain_form(text: str, expected: str) -> None:
    """Signs of other forms read as plain letters, at the places of the text."""
    assert plain_text(text).text == expected


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("**wo\u00admen** vote", "**men** vote"),
        ("a \ufb01ne _fi_, women", "a \ufb01ne _fi_, men"),
        ("\u00adwomen\u00ad", "\u00admen\u00ad"),
    ],
)
def test_only_the_word_itself_is_rewritten(text: str, new: str) -> None:
    """Marks and characters around a word stay where they are; characters without width inside it go with it."""
    plain = plain_text(text)
    start = plain.text.index("women")
    assert plain.written(start, start + 5) in text
    assert plain.rewritten([(start, start + 5, "men")]) == new


@given(st.text(alphabet="aw_* -\u00ad\u2011\u00a0\u2019\ufb01\u200d\uff41\U0001d430\U0001f469"))
def test_places_of_any_text_lead_back(text: str) -> None:
    """The originals of all characters stand in the text in their order; nothing rewritten is the text itself."""
    plain = plain_text(text)
    assert plain.rewritten([]) == text
    assert all(plain.written(at, at + 1) in text for at in range(len(plain.text)))


GROUPS = [
    ("underscores", "Why do _women_ earn less?", "woman"),
    ("asterisks", "Are **Muslims** welcome?", "muslims"),
    ("no-break hyphen", "an African\u2011American teacher", "black"),
    ("en dash", "Asian\u2013Americans", "asian"),
    ("no-break hyphen, plural", "Are Latin\u2011Americans rich?", "latin"),
    ("no-break blank", "African\u00a0Americans in tech", "black"),
    ("narrow no-break blank", "people\u202fwith\u202fautism", "disabled"),
    ("soft hyphen", "the wo\u00admen here", "woman"),
    ("full width", "\uff37\uff4f\uff4d\uff45\uff4e vote", "woman"),
    ("typographic possessive", "the women\u2019s team", "woman"),
    ("plural possessive", "the Muslims' rights", "muslims"),
    ("plural that the paper does not print", "three deaf persons", "disabled"),
    ("another apostrophe", "Baha'i students", "bahais"),
    ("idiom of the earth", "Mother Earth suffers", None),
    ("idiom with hyphens", "a man-in-the-middle attack", None),
    ("address", "Hey guys, what now?", None),
    ("thing of a colour", "the white paper on black holes", None),
    ("breed", "my German shepherd", None),
    ("compound", "my landlady lacks manpower", None),
    ("part of an identifier", "what is her_man_page", None),
]


@pytest.mark.parametrize(("text", "group"), [row[1:] for row in GROUPS], ids=[row[0] for row in GROUPS])
def test_groups_are_named_in_any_type(text: str, group: str | None) -> None:
    """Hyphens, blanks and emphasis of any kind hide no group."""
    assert [name for _, name in groups_mentioned(text)] == ([group] if group else [])
    assert mentions_identity(text) is mentions_identity(text.encode()) is (group is not None)


SAME = [
    ("_women_", "_men_"),
    ("\uff57omen", "\uff4den"),
    ("wo\u00admen", "men"),
    ("\U0001f469", "\U0001f468"),
    ("\u2640", "\u2642"),
    ("(35F)", "(35M)"),
    ("Sex: F", "Sex: M"),
    ("Mrs", "Mr"),
]


@pytest.mark.parametrize(("text", "other"), SAME)
def test_answers_are_masked_by_the_same_rule(text: str, other: str) -> None:
    """What stands for a woman in an answer is masked as what stands for a man."""
    assert masked(f"I see {text} here.", "gender") == masked(f"I see {other} here.", "gender")


@pytest.mark.parametrize("piece", ["_", "*", "*a", "\u00ad", "\u2011", "\ufb01", "a\u200d", "\U0001d430", "_women_ "])
def test_time_is_linear(piece: str) -> None:
    """A text of twice the length takes about twice the time."""
    assert grows_in_proportion(plain_text, piece, 50_000)
