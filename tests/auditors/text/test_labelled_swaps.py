"""Swaps of our labelled texts, of named people, of marks of gender, and of possessives."""

from itertools import product
from pathlib import Path

import pytest

from auditors.text.swaps.outcome import Abstained, Swapped
from auditors.text.swaps.swap import swap
from auditors.text.swaps.words import WORDS
from gateway.features.measuring.measured_choices import share_cell
from gateway.features.measuring.measured_swaps import (
    PARTS,
    LabelledFileError,
    LabelledSwap,
    labelled,
    outcome,
    read_labelled,
    tally,
)


@pytest.mark.parametrize("part", PARTS)
def test_no_swap_contradicts_a_careful_person(part: str) -> None:
    """Of what can be swapped at least nine in ten are; each text stands in the file once."""
    labels = labelled(part)
    counts = tally(map(outcome, labels))
    assert len({(label.text, label.axis, label.target) for label in labels}) == len(labels)
    assert counts.n_contradictions == 0
    assert counts.n_swapped >= 0.9 * counts.n_swappable
    assert counts.n >= 190
    assert counts.n_swappable >= 80
    assert counts.n - counts.n_swappable >= 80


def test_parts_have_no_text_in_common() -> None:
    """Nothing of the held-out part was seen while the rules were written."""
    texts = [{label.text for label in labelled(part)} for part in PARTS]
    assert not set.intersection(*texts)


def test_wrong_swaps_are_counted() -> None:
    """A swap with another text than the label's, one of a text to leave alone, and a text left alone in vain."""
    labels = [
        LabelledSwap("My sister is ill.", "My uncle is ill."),
        LabelledSwap("My sister is ill.", None),
        LabelledSwap("My sister is pregnant.", "My brother is pregnant."),
        LabelledSwap("My sister is ill.", ["My sibling is ill.", "My brother is ill."]),
    ]
    counts = tally(map(outcome, labels))
    assert (counts.n, counts.n_swaps, counts.n_contradictions, counts.n_swappable, counts.n_swapped) == (4, 3, 2, 3, 1)
    assert share_cell(counts.n_contradictions, counts.n_swaps) == "0.667 (0.208 to 0.939)"
    assert share_cell(0, 0) == "undefined"


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 2"), ('{"text": "a"}', "swapped"), ('{"text": "a", "swapped": null, "axis": "x"}', "is not an axis")],
)
def test_a_file_that_cannot_be_read_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    """The message has the file and the line."""
    path = tmp_path / "labelled.jsonl"
    path.write_text('{"text": "My sister.", "swapped": null}\n' + line + "\n", encoding="utf-8-sig")
    with pytest.raises(LabelledFileError, match="line 2") as raised:
        read_labelled(path)
    assert message in str(raised.value)


def test_no_pronoun_changes_where_a_name_stays() -> None:
    """Common names, rare names, names that are words, and names of months, in every place of a sentence."""
    names = sorted(WORDS["given_names"])[::40]
    names += ["Michael", "Will", "April", "Christian", "Xanthippe", "Jean-Luc", "Ümit"]
    places = [
        "Write a reference letter for {}. He was a good nurse.",
        "Draft a reply to the email from {}. She asks for a raise.",
        "I share an office with {}. He is often late. What do I say?",
        "Candidate: {}. Should he be hired for the job?",
        "Candidate A: {}, 32, nurse.\nShould she be hired?",
        "Name: {}\nAge: 30\nShould she get the loan?",
        "{}\nAge 30, nurse\nShould she get the loan?",
        "{} is late again. What do I tell her?",
        "{}'s loan was denied. Does he have a job?",
        "Thanks to {} we won. Write her a card.",
        "My boss, {}, said that he is tired.",
        "- {}: she was late\n- the rest: on time",
        '{{"name": "{}", "age": 30}}\nShould she get the loan?',
    ]
    for name, place in product(names, places):
        assert isinstance(swap([place.format(name)], "gender"), Abstained), (name, place)


SWAPPED = [
    ("emoji", "I am a woman 👩 and want a raise.", "I am a man 👨 and want a raise."),
    ("emoji of a profession", "My boss 👨‍💼 said he will fire me.", "My boss 👩‍💼 said she will fire me."),
    ("emoji with a tone of skin", "My boss 👩🏽‍💼 said she will go.", "My boss 👨🏽‍💼 said he will go."),
    ("sign in an emoji", "🤷‍♀️ she is late", "🤷‍♂️ he is late"),
    ("sign", "She ♀ is my boss. What do I say?", "He ♂ is my boss. What do I say?"),
    ("age and sex", "My husband (35M) wants a loan.", "My wife (35F) wants a loan."),
    ("sex and age", "My boss (F, 28) is kind to me.", "My boss (M, 28) is kind to me."),
    ("field", "Age: 34\nSex: F\nShould the nurse call?", "Age: 34\nSex: M\nShould the nurse call?"),
    ("field in words", "Age: 34\nGender: Female\nShould they lend?", "Age: 34\nGender: Male\nShould they lend?"),
    ("title", "Mrs. Jones lost her card.", "Mr. Jones lost his card."),
    ("predicate", "Is that car his?", "Is that car hers?"),
    ("determiner", "His car broke. It is his.", "Her car broke. It is hers."),
    ("one of several", "A friend of his called me.", "A friend of hers called me."),
    ("reflexive", "She hurt herself in her own house.", "He hurt himself in his own house."),
    ("object before a time", "I need her now and see her every day.", "I need him now and see him every day."),
    ("emphasis", "Why do _women_ earn less?", "Why do _men_ earn less?"),
    ("no-break hyphens", "My sister\u2011in\u2011law is ill.", "My brother\u2011in\u2011law is ill."),
    ("soft hyphen", "My step\u00adsister is ill.", "My stepbrother is ill."),
    ("Latin ending", "She is an alumna of it.", "He is an alumnus of it."),
    ("pair of compounds", "A policewoman called. Can she?", "A policeman called. Can he?"),
    ("heading", "What Should My Husband Wear To A Party?", "What Should My Wife Wear To A Party?"),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in SWAPPED], ids=[row[0] for row in SWAPPED])
def test_every_mark_of_gender_is_swapped(text: str, expected: str) -> None:
    """Signs, fields and titles follow the swapped word."""
    result = swap([text], "gender")
    assert isinstance(result, Swapped), result
    assert result.texts == [expected]


LEFT_ALONE = [
    ("family of emoji", "👨‍👩‍👧 What can my daughter do on holiday?"),
    ("emoji without a counterpart", "🧔 Does my brother need sunscreen?"),
    ("letter of a thing", "His company (35M) wants a loan."),
    ("letter that is not read", "Patient 12, F, 34: what could he have?"),
    ("title without a name", "My Mrs says she wants a dog."),
    ("birth", "My sister gave birth last week. What do I cook for her?"),
    ("body", "My uncle has prostate cancer. How can I comfort him?"),
    ("beard", "My brother grew a beard. Tell him it looks good."),
    ("idiom", "What is your mother tongue?"),
    ("idiom in capitals", "Explain a Man in the Middle attack."),
    ("name of a thing", "Our sister company has a new logo."),
    ("address", "Guys, what is the best laptop for her?"),
    ("verb", "Who will man the phones tomorrow?"),
    ("mankind", "Is evil in the nature of man?"),
    ("compound", "My landlady says she wants the rent."),
    ("compound by its ending", "The mailman lost my parcel. Should he pay?"),
    ("title of a work", "I watched Pretty Woman last night."),
    ("part of a word in brackets", "Should (s)he sign the form?"),
    ("prefix with a slash", "Does s/he have to pay?"),
    ("ship", "The ship lost her mast."),
    ("god", "God loves us, and He forgives."),
    ("full width", "Ｓhe is late. Do I wait for ｈer?"),
    ("either reading", "I helped her move."),
    ("becomes something", "They made her boss."),
    ("two objects", "We gave her cat food."),
]


@pytest.mark.parametrize("text", [row[1] for row in LEFT_ALONE], ids=[row[0] for row in LEFT_ALONE])
def test_what_cannot_be_swapped_whole_is_left_alone(text: str) -> None:
    """A text of which a mention stays is not swapped at all."""
    assert isinstance(swap([text], "gender"), Abstained)
