"""Swaps of identity terms: a table written by hand, what stays, why a text is left alone, the way back."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditors.text.identity import AXES, groups_mentioned
from auditors.text.names import BEARERS, NAMES
from auditors.text.swaps.lexicon import FORMS, SLOTS, SWAPPED
from auditors.text.swaps.masking import masked
from auditors.text.swaps.outcome import Abstained, Swapped
from auditors.text.swaps.people import FIGURES
from auditors.text.swaps.swap import LONGEST_CHARS, swap
from auditors.text.swaps.words import WORDS
from tests.support import auditors as support


def rows(name: str) -> list[tuple[str, ...]]:
    """Rows of a table of texts written by hand, without its comments."""
    lines = (Path(support.__file__).parent / name).read_text(encoding="utf-8").splitlines()
    cells = (line.replace("\\n", "\n").replace("\\\\", "\\").split("\t") for line in lines if not line.startswith("#"))
    return [tuple(cell) for cell in cells]


SWAPS = [(*row[:3], None if row[3] == "-" else row[3]) for row in rows("swapped_texts.tsv")]
ALONE = [*rows("texts_left_alone.tsv"), ("gender", "too long", "my sister " * (LONGEST_CHARS // 9))]


def found(text: str, axis: str, target: str | None = None) -> str | None:
    """The swapped text; None when it was left alone."""
    result = swap([text], axis, target=target)
    return result.texts[0] if isinstance(result, Swapped) else None


def _in_case(word: str, number: int) -> str:
    return (word, word.upper(), word.capitalize(), word.title())[number]


class TestTable:
    @pytest.mark.parametrize(("axis", "target", "text", "expected"), SWAPS)
    def test_swap(self, axis: str, target: str, text: str, expected: str | None) -> None:
        """The swap gives the text written by hand, or None, and leads back; masked, both texts are the same."""
        result = swap([text], axis, target=target)
        assert found(text, axis, target) == expected
        if expected is not None:
            assert isinstance(result, Swapped)
            assert (result.target, found(expected, axis, result.group)) == (target, text)
            assert "her_name" in text or masked(text, axis) == masked(expected, axis)

    @pytest.mark.parametrize(("axis", "reason", "text"), ALONE)
    def test_left_alone(self, axis: str, reason: str, text: str) -> None:
        """What is not sure is not swapped, for the stated reason."""
        result = swap([text], axis)
        assert isinstance(result, Abstained)
        assert result.reason == reason


class TestConversation:
    def test_all_messages_are_about_the_same_referent(self) -> None:
        """A mention in any message is swapped, in a system prompt too."""
        result = swap(["You help women.", "What should I read?"], "gender")
        assert isinstance(result, Swapped)
        assert (result.texts, result.group, result.n_words) == (["You help men.", "What should I read?"], "woman", 1)

    def test_choice_of_the_target(self) -> None:
        """The number picks one of the groups that every mention has a counterpart in, each alike."""
        results = [swap(["Is an Asian student the one to hire?"], "race", choice=choice) for choice in range(6)]
        assert [one.target for one in results if isinstance(one, Swapped)] == ["white", "black", "latin"] * 2


class TestNoAccidents:
    @pytest.mark.parametrize("axis", SLOTS)
    @given(text=st.text(max_size=80))
    @settings(max_examples=15)
    def test_any_text_is_swapped_back_or_left_alone(self, axis: str, text: str) -> None:
        """Whatever the characters, nothing is raised, and what is swapped comes back."""
        result = swap([text], axis)
        if isinstance(result, Swapped):
            assert found(result.texts[0], axis, result.group) == text

    @pytest.mark.parametrize("axis", SLOTS)
    @given(data=st.data())
    @settings(max_examples=20)
    def test_sentences_are_swapped_back_or_left_alone(self, axis: str, data: st.DataObject) -> None:
        """Sentences of the lexicon and ordinary words come back, but for kinds of apostrophes and the case of "AN"."""
        written = [
            text for text, forms in FORMS[axis].items() if any(form.text not in form.slot.spellings for form in forms)
        ]
        ordinary = ["a", "an", "the", "my", "student", "is", "and", ",", ".", "person", "I", "am"]
        words = st.sampled_from([*written, *ordinary])  # spellings such as "mum" come back as "mom"
        drawn = [_in_case(data.draw(words), data.draw(st.integers(0, 3))) for _ in range(data.draw(st.integers(1, 9)))]
        text = f"Please tell me what this is: {' '.join(drawn)}"
        result = swap([text], axis)
        if isinstance(result, Swapped):
            back = found(result.texts[0], axis, result.group) or ""
            assert re.sub(r"\bAN\b", "An", back.replace("ʼ", "'")) == re.sub(r"\bAN\b", "An", text.replace("ʼ", "'"))
            assert result.texts[0] != text

    def test_no_part_of_a_word_is_touched(self) -> None:
        """Caucasian never becomes caucblack: a term inside a longer word is no term, before a person or not."""
        for axis, forms in FORMS.items():
            for form in filter(str.isascii, forms):
                inside = form.replace(" ", "").replace("-", "")
                text = f"This is the cauc{inside}x person of it."
                result = swap([text], axis)
                assert isinstance(result, Abstained)
                assert result.reason == "no identity term"
                assert masked(text, axis) == text


class TestLexicon:
    def test_every_axis_and_nearly_every_group_can_be_swapped(self) -> None:
        """The ten axes, with every group but "questioning people", which has no counterpart of its own kind."""
        groups = {axis: {group.name for group in known} for axis, known in AXES.items()}
        assert {axis: set(named) for axis, named in SWAPPED.items()} == groups | {
            "sexual_orientation": groups["sexual_orientation"] - {"questioning_people"}
        }

    def test_twenty_names_in_every_cell(self) -> None:
        """Eight cells of race and gender with twenty names each, of which none is a word of the lexicon or a figure."""
        words = {form for forms in FORMS.values() for form, (first, *_) in forms.items() if first.slot.kind != "name"}

        assert set(NAMES) == set(product(SWAPPED["race"], SWAPPED["gender"]))
        assert {len(names) for names in NAMES.values()} == {20}
        assert len(BEARERS) == 8 * 20
        assert not set(BEARERS) & (words | {name.lower() for name in FIGURES | WORDS["given_names"]})

    def test_a_name_is_exchanged_for_one_of_its_place(self) -> None:
        """The i-th name of a cell for the i-th of another."""
        for axis in ("gender", "race"):
            for slot in SLOTS[axis]:
                if slot.kind == "name":
                    bearers = [BEARERS[name.lower()] for name in slot.forms.values()]
                    assert len({one.place for one in bearers}) == 1
                    assert [getattr(one, axis) for one in bearers] == list(slot.forms)

    def test_labels_of_the_paper_are_known_to_detection(self) -> None:
        """A swap's group is the group that detection finds, wherever both know the term."""
        for axis, forms in FORMS.items():
            for form, places in forms.items():
                seen = [group for place, group in groups_mentioned(form) if place == axis]
                if seen:
                    assert seen[0] in {place.group for place in places}, (axis, form, seen)
