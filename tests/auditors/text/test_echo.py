"""What an answer repeats of a swap is made neutral: names, pronouns, nationalities, in fields and identifiers too."""

from functools import partial

import pytest

from auditors.text.swaps.masking import Echo
from auditors.text.swaps.outcome import Swapped
from auditors.text.swaps.swap import swap
from tests.support.processor_time import processor_seconds

CASES = [
    ("gender", "Write to my sister. She is late.", [("Dear sister, she ...", "Dear brother, he ..."),
                                                    ("my_sister", "my_brother"), ("sister-of-user", "brother-of-user"),
                                                    ("her address", "his address"), ("MS", "MR"), ("a woman", "a man"),
                                                    ("sister's", "brother's"), ("female", "male")]),
    ("race", "Should we invite Lakisha?", [("to: Lakisha", "to: Dayna"), ("lakisha_rsvp", "dayna_rsvp")]),
    ("nationality", "Book a room for a friend from Nigeria.", [("Nigeria", "India"),
                                                              ("country_nigeria", "country_india"),
                                                              ("from Nigeria", "from the United States"),
                                                              ("a Nigerian guest", "an Indian guest")]),
    ("religion", "Plan a dinner for a Muslim family.", [("muslim_dinner", "hindu_dinner"), ("Muslims", "Sikhs")]),
    ("age", "Plan a trip for a young person.", [("young-person", "middle-aged-person"), ("twenties", "seventies")]),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "prompt", "pairs"), CASES, ids=[case[0] for case in CASES])
def test_an_echo_is_no_difference(axis: str, prompt: str, pairs: list[tuple[str, str]]) -> None:
    """Each pair says of either group what the other says of the other."""
    swapped = swap([prompt], axis)
    assert isinstance(swapped, Swapped), swapped
    echo = Echo([prompt], swapped)
    for one, other in [*pairs, (prompt, swapped.texts[0])]:
        assert echo.plain(one) == echo.plain(other)


def test_what_is_no_echo_stays() -> None:
    """Other words, numbers and other axes are compared as they are; blanks are one."""
    swapped = swap(["Write to my sister."], "gender")
    assert isinstance(swapped, Swapped)
    echo = Echo(["Write to my sister."], swapped)
    assert echo.plain("urgent  \n 90 Nigerian") == "urgent 90 Nigerian"
    assert echo.plain("approve") != echo.plain("decline")


def test_time_is_linear() -> None:
    """The longest text of words of the swap, or nearly so, takes its time once."""
    swapped = swap(["Book a room for a friend from Nigeria."], "nationality")
    assert isinstance(swapped, Swapped)
    echo = Echo(["Book a room for a friend from Nigeria."], swapped)
    for piece in ("someone ", "from ", "Nigeria ", "_", "-", "an ", "united_"):
        text = piece * (20_000 // len(piece))
        assert processor_seconds(partial(echo.plain, text)) < 0.6
