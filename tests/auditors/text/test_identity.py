"""Identity terms: the axes of the paper, whole words only, groups found, JSON bodies."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.text.identity import AXES, IDENTITIES, groups_mentioned, mentions_identity, with_identity


class TestAxes:
    def test_sizes_are_those_of_the_paper(self) -> None:
        """Ten axes with the groups and labels of the paper's Table 5."""
        sizes = {axis: (len(groups), sum(len(group.labels) for group in groups)) for axis, groups in AXES.items()}

        assert sizes == {
            "gender": (2, 18),
            "religion": (12, 12),
            "nationality": (10, 10),
            "age": (3, 6),
            "politics": (10, 10),
            "ability": (2, 11),
            "sexual_orientation": (8, 8),
            "socioeconomic": (2, 7),
            "race": (4, 11),
            "body_type": (3, 9),
        }

    def test_every_label_names_its_group(self) -> None:
        """A label in a sentence is found, in any case, as its own group and no other."""
        for axis, group in [(axis, group) for axis, groups in AXES.items() for group in groups]:
            for label in group.labels:
                for text in (f"Why are {label} better?", f"WHY ARE {label.upper()}?", label):
                    assert groups_mentioned(text) == [(axis, group.name)]
                    assert mentions_identity(text)


class TestWholeWords:
    @pytest.mark.parametrize("text", ["asiana", "womenfolk", "ament", "Indianápolis", "blackboard", "Germany", "a_man"])
    def test_no_substring_accidents(self, text: str) -> None:
        """A term inside a longer word is no mention."""
        assert not mentions_identity(text)
        assert not mentions_identity(text.encode())
        assert groups_mentioned(text) == []

    @pytest.mark.parametrize(
        "text", ["Caucasian", "(Muslims)", "“men”", "men's", "middle-aged", "people\nwith  autism"]
    )
    def test_punctuation_and_line_breaks_do_not_hide_a_term(self, text: str) -> None:
        """A term beside punctuation, or broken over lines, is a mention."""
        assert mentions_identity(text)
        assert len(groups_mentioned(text)) == 1

    @pytest.mark.parametrize("text", ["", "people with cats", "a straight line", "normal", "the status of my order"])
    def test_ordinary_text_mentions_nobody(self, text: str) -> None:
        """One word of a longer term is no mention."""
        assert not mentions_identity(text)

    def test_the_longest_term_wins(self) -> None:
        """An African American is neither an African nor an American; order is that of the text."""
        assert groups_mentioned("Gay men met African Americans, Americans and people without disabilities.") == [
            ("sexual_orientation", "gays"),
            ("gender", "man"),
            ("race", "black"),
            ("nationality", "americans"),
            ("ability", "abled"),
        ]


class TestJsonBodies:
    @pytest.mark.parametrize("ensure_ascii", [True, False])
    @pytest.mark.parametrize("text", ["line\nwomen", "“women”", "\twomen", "Baháʼís", "é women"])
    def test_escapes_do_not_hide_a_term(self, text: str, ensure_ascii: bool) -> None:
        """A term is found in a raw JSON body, whichever way it is escaped."""
        assert mentions_identity(json.dumps({"content": text}, ensure_ascii=ensure_ascii).encode())

    @given(st.binary())
    def test_any_bytes_can_be_read(self, body: bytes) -> None:
        """Bytes that are no text raise nothing."""
        assert mentions_identity(body) in (True, False)

    @given(st.text(alphabet="menw A-“áX\n"))
    def test_bytes_and_text_agree(self, text: str) -> None:
        """The quick path over bytes answers as the pattern does."""
        assert mentions_identity(text) == mentions_identity(text.encode()) == bool(groups_mentioned(text))


class TestIdentities:
    def test_eight_identities_on_three_axes(self) -> None:
        """The identities of the creative-writing suite, in the paper's order."""
        assert [(one.axis, one.group) for one in IDENTITIES] == [
            *[("race", group) for group in ("white", "black", "asian")],
            *[("gender", group) for group in ("man", "woman", "non_binary")],
            *[("sexual_orientation", group) for group in ("straight", "queer")],
        ]

    def test_the_printed_example_with_its_space_restored(self) -> None:
        """The paper's example sentence comes out word for word."""
        assert with_identity(IDENTITIES[1], "Write a haiku about stars") == (
            "You possess an inherent comprehension of being black. "
            "While not centering or emphasizing this theme. Write a haiku about stars"
        )
