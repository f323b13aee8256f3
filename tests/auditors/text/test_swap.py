"""Swaps of identity terms: a table written by hand, what stays, why a text is left alone, the way back."""

from itertools import product

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

SWAPS = [
    # one referent, all mentions
    ("gender", "man", "My sister is a nurse.", "My brother is a nurse."),
    ("gender", "man", "My sister says she is late.", "My brother says he is late."),
    ("gender", "woman", "He told me that he hurt himself.", "She told me that she hurt herself."),
    ("gender", "man", "Is she the woman who called? She's early.", "Is he the man who called? He's early."),
    ("gender", "woman", "My son's school called about my son.", "My daughter's school called about my daughter."),
    ("gender", "woman", "The boys' coach is ill.", "The girls' coach is ill."),
    ("gender", "man", "my sister wants a swift answer", "my brother wants a swift answer"),
    ("gender", "man", "Why do women earn less?", "Why do men earn less?"),
    ("gender", "man", "the women's team", "the men's team"),
    ("gender", "woman", "The wives of sailors wait.", None),
    ("gender", "man", "The wives of sailors wait.", "The husbands of sailors wait."),
    ("gender", "woman", "My father-in-law is 60 and he swims.", "My mother-in-law is 60 and she swims."),
    ("gender", "man", "My ex-wife wrote to me.", "My ex-husband wrote to me."),
    ("gender", "woman", "I met Mr. Smith and liked him.", "I met Ms. Smith and liked her."),
    ("gender", "man", "As a woman in tech, how do I ask for a raise?", "As a man in tech, how do I ask for a raise?"),
    ("gender", "woman", "We want to hire a male nurse.", "We want to hire a female nurse."),
    ("gender", "woman", "My fiancé is from here.", "My fiancée is from here."),
    ("gender", "man", "Can a chairwoman vote?", "Can a chairman vote?"),
    ("gender", "man", "What does a Muslim woman wear at work?", "What does a Muslim man wear at work?"),
    ("sexual_orientation", "heterosexuals", "My friend is gay and lonely.", "My friend is straight and lonely."),
    # her: his or him
    ("gender", "man", "I saw her yesterday.", "I saw him yesterday."),
    ("gender", "man", "She forgot her phone.", "He forgot his phone."),
    ("gender", "man", "Please write to her.", "Please write to him."),
    ("gender", "man", "Tell her that the report is due.", "Tell him that the report is due."),
    ("gender", "man", "What is in her new car?", "What is in his new car?"),
    ("gender", "man", "She asked her doctor for help.", "He asked his doctor for help."),
    ("gender", "man", "I told her quickly.", "I told him quickly."),
    ("gender", "man", "She runs her own firm.", "He runs his own firm."),
    ("gender", "man", "I want advice for her career, and help her.", "I want advice for his career, and help him."),
    ("gender", "man", "She loves her family.", "He loves his family."),
    # his: her or hers
    ("gender", "woman", "The idea was his.", "The idea was hers."),
    ("gender", "woman", "He sold his car.", "She sold her car."),
    ("gender", "woman", "A friend of his is here and likes his job.", "A friend of hers is here and likes her job."),
    ("gender", "woman", "Is this house his or rented?", "Is this house hers or rented?"),
    ("gender", "man", "The red one is hers.", "The red one is his."),
    # case
    ("gender", "man", "SHE SAID THAT THE HOUSE IS HERS.", "HE SAID THAT THE HOUSE IS HIS."),
    ("gender", "woman", "Him I trust.", "Her I trust."),
    ("gender", "man", "Her boss is late. Her career is not.", "His boss is late. His career is not."),
    ("religion", "atheists", "Christians are kind to me.", "Atheists are kind to me."),
    ("religion", "christians", "Are atheists kind to you?", "Are Christians kind to you?"),
    ("race", "white", "A BLACK MAN ASKED ME FOR THE TIME", "A WHITE MAN ASKED ME FOR THE TIME"),
    ("race", "black", "The caucasian student asked for a loan.", "The african american student asked for a loan."),
    ("race", "black", "A Caucasian student asked for a loan.", "An African American student asked for a loan."),
    # articles
    ("race", "asian", "I am a White woman applying for a loan.", "I am an Asian woman applying for a loan."),
    ("race", "white", "I am an Asian woman applying for a loan.", "I am a White woman applying for a loan."),
    ("nationality", "americans", "A German engineer asked us.", "An American engineer asked us."),
    ("nationality", "germans", "An Indian engineer asked us.", "A German engineer asked us."),
    ("gender", "woman", "I have an uncle. Is he rich?", "I have an aunt. Is she rich?"),
    ("gender", "woman", "I am an only son, a brother to nobody.", None),
    ("age", "old", "A young man asked for a loan.", "An old man asked for a loan."),
    # adjectives speak of people
    ("race", "black", "Is the white student the one to hire?", "Is the black student the one to hire?"),
    ("nationality", "germans", "I am Indian. What should I pack?", "I am German. What should I pack?"),
    ("nationality", "germans", "What do Indians eat in the morning?", "What do Germans eat in the morning?"),
    ("nationality", "nigerians", "I am a student from Brazil.", "I am a student from Nigeria."),
    ("religion", "jews", "As a Christian, how do I say no to this?", "As a Jew, how do I say no to this?"),
    ("religion", "jews", "My Christian neighbour is loud.", "My Jewish neighbour is loud."),
    ("politics", "democrats", "I am a Republican and need a friend.", "I am a Democrat and need a friend."),
    ("politics", "democrats", "Are Republican voters older?", "Are Democratic voters older?"),
    ("ability", "abled", "Is it hard to hire deaf people?", "Is it hard to hire hearing people?"),
    ("ability", "abled", "A job for a person with a disability.", "A job for a person without a disability."),
    ("sexual_orientation", "heterosexuals", "My gay colleague is sad.", "My straight colleague is sad."),
    ("socioeconomic", "high", "Do poor people vote?", "Do rich people vote?"),
    ("body_type", "fat", "Are thin people happy?", "Are fat people happy?"),
    ("body_type", "thin", "What suits a person of heavy build?", "What suits a person of slim build?"),
    # names
    ("gender", "woman", "My friend Ethan is ill. Can I visit Ethan?", "My friend Abby is ill. Can I visit Abby?"),
    ("race", "black", "My friend Ethan is ill. Can I visit Ethan?", "My friend Dexter is ill. Can I visit Dexter?"),
    ("race", "latin", "Should I lend Terrell money? He is a friend.", "Should I lend Fermín money? He is a friend."),
    ("gender", "man", "My sister Abby lost her job.", "My brother Ethan lost his job."),
    # what is protected stays
    ("gender", "man", "Is my sister right that `man = woman` fails?", "Is my brother right that `man = woman` fails?"),
    ("gender", "man", "Read https://she.example/her and tell her.", "Read https://she.example/her and tell him."),
    ("gender", "man", "Write to woman@her.example about her job.", "Write to woman@her.example about his job."),
    ("gender", "woman", "Fix for him:\n```\nman = her\n```\nThanks.", "Fix for her:\n```\nman = her\n```\nThanks."),
    ("gender", "man", 'She said "hello" to me.', 'He said "hello" to me.'),
    ("gender", "man", "Is she the one in {her_name}?", "Is he the one in {her_name}?"),
]  # fmt: skip

ALONE = [
    ("gender", "no identity term", "Tell me about the weather."),
    ("gender", "no identity term", "Germany has a romantic manifesto, womenfolk and amends."),
    ("gender", "no identity term", "What does a_man mean? And woman2?"),
    ("gender", "no identity term", "What is wom\u0301an and man\u0301 in this?"),
    ("gender", "several groups", "Are men better leaders than women?"),
    ("gender", "several groups", "Ask him or her about the job."),
    ("gender", "several groups", "My brother likes my sister."),
    ("gender", "several referents", "My mother and my aunt are here."),
    ("gender", "several referents", "A woman met another woman."),
    ("gender", "several referents", "A man sold a boy the car."),
    ("gender", "several referents", "My friends Ethan and Caleb are here."),
    ("gender", "several referents", "Do women like it when she sings?"),
    ("gender", "several referents", "My sister knows your sister."),
    ("gender", "several referents", "I saw a man and his son at the park."),
    ("gender", "several referents", "Is her daughter ill?"),
    ("gender", "bound to the group", "My roommate is a lesbian and I want to support her."),
    ("nationality", "idiom", "Are my Asian American neighbors loud?"),
    ("nationality", "compound word", "Is an African-American person more likely to get it?"),
    ("gender", "public figure", "Was Einstein a good father?"),
    ("gender", "public figure", "Is it true that she wrote to Obama?"),
    ("gender", "public figure", "is obama a good father?"),
    ("gender", "public figure", "what did he say about hitler's speech?"),
    ("gender", "named person", "my sister emily lost her job"),
    ("gender", "named person", "What did Ursula say when she left?"),
    ("gender", "named person", "My sister Ursula lost her job."),
    ("gender", "named person", "I met Ethan Thompson and he was nice."),
    ("gender", "named person", "My sister Emily lost her job."),
    ("gender", "named person", "my sister latoya lost her job"),
    ("race", "named person", "Emily hired a Black woman, why?"),
    ("gender", "no counterpart", "The actress said that she is ill."),
    ("gender", "no counterpart", "My sister is not a feminist."),
    ("gender", "bound to the group", "My sister is pregnant."),
    ("gender", "bound to the group", "Should he see a doctor about his prostate?"),
    ("gender", "idiom", "What does the man page of this tool say?"),
    ("gender", "idiom", "Can you guys help me with this?"),
    ("gender", "unclear use", "Man, what a day this is."),
    ("gender", "unclear use", "Is this the male end of the cable?"),
    ("gender", "unclear pronoun", "I saw her duck."),
    ("gender", "unclear pronoun", "They gave her flowers."),
    ("gender", "unclear pronoun", "I made her happy."),
    ("gender", "unclear pronoun", "We met her last week."),
    ("gender", "unclear pronoun", "What was his then plan?"),
    ("gender", "unclear pronoun", 'What is her "thing" about?'),
    ("gender", "compound word", "Is this a man-made lake?"),
    ("gender", "unusual spelling", "Is the wOMan here?"),
    ("gender", "unusual spelling", "Is \u017fhe the nurse of this ward?"),
    ("gender", "unusual spelling", "Is this an woman or not?"),
    ("gender", "mentioned in a quotation", 'My sister wrote "I am a good woman" to me.'),
    ("gender", "mentioned in a quotation", 'Sum up my sister: {"sex": "female", "job": "she cooks"}'),
    ("gender", "round trip differs", "He enjoyed his quarterly review."),
    ("gender", "not English", "Kann man das machen, ich habe es nicht?"),
    ("gender", "not English", "Bu her gün için bir plan ve iş."),
    ("gender", "too long", "my sister " * (LONGEST_CHARS // 9)),
    ("race", "several groups", "I drink black coffee in the white house over there."),
    ("race", "unclear use", "I drink black coffee and like it."),
    ("sexual_orientation", "no counterpart", "Is a lesbian woman likely to get the job?"),
    ("race", "unclear use", "Is my car black or blue?"),
    ("race", "no counterpart", "Is a Latina likely to get the job?"),
    ("race", "bound to the group", "Is it racism if a Black man is asked?"),
    ("nationality", "unclear use", "Where can I eat Chinese food?"),
    ("nationality", "unclear use", "Translate this into German, please."),
    ("nationality", "unclear use", "I am a Chinese student who likes Chinese food."),
    ("religion", "bound to the group", "When does a Muslim man go to the mosque?"),
    ("politics", "unclear use", "This is a conservative estimate of the cost."),
    ("sexual_orientation", "unclear use", "Draw a straight line to the door."),
    ("sexual_orientation", "bound to the group", "My gay friend met his husband here."),
    ("socioeconomic", "unclear use", "The results are poor."),
    ("age", "unclear use", "Is this an old version of the tool?"),
]  # fmt: skip


def found(text: str, axis: str, target: str | None = None) -> str | None:
    """The swapped text; None when it was left alone."""
    result = swap([text], axis, target=target)
    return result.texts[0] if isinstance(result, Swapped) else None


def _in_case(word: str, number: int) -> str:
    return (word, word.upper(), word.capitalize(), word.title())[number]


class TestTable:
    @pytest.mark.parametrize(("axis", "target", "text", "expected"), SWAPS)
    def test_swap(self, axis: str, target: str, text: str, expected: str | None) -> None:
        """The text about the other group, as written by hand (None: left alone)."""
        assert found(text, axis, target) == expected

    @pytest.mark.parametrize(("axis", "target", "text", "expected"), [row for row in SWAPS if row[3]])
    def test_way_back(self, axis: str, target: str, text: str, expected: str) -> None:
        """Swapping the expected text towards the first group gives the first text."""
        result = swap([text], axis, target=target)
        assert isinstance(result, Swapped)
        assert (result.target, found(expected, axis, result.group)) == (target, text)

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

    def test_groups_of_two_messages(self) -> None:
        """One message about each group is two groups."""
        result = swap(["What about my sister?", "And what about my brother?"], "gender")
        assert isinstance(result, Abstained)
        assert result.reason == "several groups"

    def test_choice_of_the_target(self) -> None:
        """The number picks one of the groups that every mention has a counterpart in, each alike."""
        results = [swap(["Is an Asian student the one to hire?"], "race", choice=choice) for choice in range(6)]
        assert [one.target for one in results if isinstance(one, Swapped)] == ["white", "black", "latin"] * 2

    def test_an_unknown_axis(self) -> None:
        """The message lists the axes."""
        with pytest.raises(ValueError, match='"zodiac" is no axis; known: gender'):
            swap(["x"], "zodiac")


class TestNoAccidents:
    @pytest.mark.parametrize("axis", SLOTS)
    @given(text=st.text(max_size=80))
    @settings(max_examples=60)
    def test_any_text_is_swapped_back_or_left_alone(self, axis: str, text: str) -> None:
        """Whatever the characters, nothing is raised, and what is swapped comes back."""
        result = swap([text], axis)
        if isinstance(result, Swapped):
            assert found(result.texts[0], axis, result.group) == text

    @pytest.mark.parametrize("axis", SLOTS)
    @given(data=st.data())
    @settings(max_examples=80)
    def test_sentences_are_swapped_back_or_left_alone(self, axis: str, data: st.DataObject) -> None:
        """Sentences put together from the lexicon and ordinary words come back, character by character."""
        words = st.sampled_from(
            [*FORMS[axis], "a", "an", "the", "my", "student", "is", "and", ",", ".", "person", "I", "am"]
        )
        text = " ".join(
            _in_case(data.draw(words), data.draw(st.integers(0, 3))) for _ in range(data.draw(st.integers(1, 9)))
        )
        result = swap([f"Please tell me what this is: {text}"], axis)
        if isinstance(result, Swapped):
            assert found(result.texts[0], axis, result.group) == f"Please tell me what this is: {text}"
            assert result.texts[0] != f"Please tell me what this is: {text}"

    @pytest.mark.parametrize("prefix", ["cauc", "in", "ro", "sub"])
    def test_no_part_of_a_word_is_touched(self, prefix: str) -> None:
        """Caucasian never becomes caucblack: a term inside a longer word is no term, before a person or not."""
        for axis, forms in FORMS.items():
            for form in forms:
                inside = form.replace(" ", "").replace("-", "")
                text = f"This is the {prefix}{inside}x person of it."
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

    def test_two_kinds_of_cue_for_every_group(self) -> None:
        """Each group of an axis is named by forms of at least two kinds, such as a noun and an adjective."""
        for axis, slots in SLOTS.items():
            for group in SWAPPED[axis]:
                kinds = {slot.kind for slot in slots if group in slot.forms}
                assert len(kinds) >= 2, (axis, group, kinds)

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


class TestMasked:
    @pytest.mark.parametrize(("axis", "target", "text", "expected"), [row for row in SWAPS if row[3]])
    def test_two_sides_of_a_swap_are_the_same_masked(self, axis: str, target: str, text: str, expected: str) -> None:
        """An echo of the swapped words alone is no difference."""
        if "her_name" not in text:
            assert masked(text, axis) == masked(expected, axis)

    def test_other_words_stay(self) -> None:
        """What is no word of the axis is kept."""
        assert masked("A woman gave her dog an egg.", "gender") == "someone gave they dog an egg."
