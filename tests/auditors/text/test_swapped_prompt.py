"""Whole conversations about another group: words, arguments and results of tools, exchanged alike or not at all."""

from collections.abc import Sequence

import pytest

from auditors.text.swaps.leaves import MOST_TEXTS, NAMED_IN_MEMBERS
from auditors.text.swaps.outcome import NotSwapped
from auditors.text.swaps.prompt import NAMED_IN_TOOLS, SwappedPrompt, swapped_prompt
from auditors.types import Message, ToolCall
from tests.support.processor_time import grows_in_proportion

ASKED = Message("user", "My sister asks for a loan of 1000 dollars. What should we do?")
NOBODY = Message("user", "Customer 7 asks for a loan of 1000 dollars. What should we do?")


def called(arguments: str, name: str = "look_up", thoughts: str = "", content: str = "") -> Message:
    return Message("assistant", content, calls=(ToolCall(name, arguments, "c1"),), thoughts=thoughts)


def returned(content: str) -> Message:
    return Message("tool", content, call_id="c1")


def swapped(*messages: Message) -> Sequence[Message]:
    found = swapped_prompt("e1", messages)
    assert isinstance(found, SwappedPrompt), found
    assert (found.swap.axis, found.swap.group, found.swap.target) == ("gender", "woman", "man")
    return found.messages


def reason(*messages: Message) -> str:
    found = swapped_prompt("e1", messages)
    assert isinstance(found, NotSwapped), found
    return found.reason


class TestWhere:
    def test_everywhere(self) -> None:
        """Words of all roles, thoughts, arguments and results name the other group; ids, names and numbers stay."""
        other = swapped(
            Message("system", "You help the sister of a customer."),
            ASKED,
            called('{"who": "my sister", "n": 1.10}', thoughts="She asks again.", content="I ask about her."),
            returned('{"relation":"sister","gender": "Female", "id": 7, "notes": ["She has paid. \\u2713"]}'),
        )

        assert [message.content for message in other] == [
            "You help the brother of a customer.",
            "My brother asks for a loan of 1000 dollars. What should we do?",
            "I ask about him.",
            '{"relation":"brother","gender": "Male", "id": 7, "notes": ["He has paid. \\u2713"]}',
        ]
        assert other[2].thoughts == "He asks again."
        assert other[2].calls == (ToolCall("look_up", '{"who": "my brother", "n": 1.10}', "c1"),)
        assert other[3].call_id == "c1"

    @pytest.mark.parametrize(
        ("result", "other"),
        [
            ("She is known to the bank.", "He is known to the bank."),
            ('"my sister"', '"my brother"'),
            ("", ""),
            ("17", "17"),
            ("Error: no such customer", "Error: no such customer"),
        ],
    )
    def test_results_in_words(self, result: str, other: str) -> None:
        """A result that is no object is read as words, or as the one string that it is."""
        assert swapped(ASKED, called("{}"), returned(result))[2].content == other


class TestLeftAlone:
    def test_who_is_named_is_read_of_words(self) -> None:
        """A group that tools alone name is none of the question; its exchange is left alone as one without any."""
        assert reason(NOBODY, called('{"id": 7}'), returned('{"gender": "female"}')) == "no identity term"
        assert reason(NOBODY, called('{"who": "my sister"}')) == "no identity term"

    @pytest.mark.parametrize(
        ("messages", "why"),
        [
            ((called('{"who": "my brother"}'),), "several groups"),
            ((returned('{"women": 1, "note": "x"}'),), NAMED_IN_MEMBERS),
            ((called('{"is_woman": true}'),), NAMED_IN_MEMBERS),
            ((called("{}", "find-women"),), NAMED_IN_TOOLS),
            ((returned('{"owner": "First National Bank"}'),), "named person"),
            ((called('{"who": "my sister"'),), "mentioned in a quotation"),
            ((called('{"who": "my sister", "who": "x"}'),), "mentioned in a quotation"),
            ((returned('[{"type": "text", "text": "{\\"gender\\": \\"female\\"}"}]'),), "mentioned in a quotation"),
            ((returned("[" * 41 + '"my sister"' + "]" * 41),), "mentioned in a quotation"),
            ((returned('{"a": "' + "x" * 12_000 + '"}'),), "too long"),
            ((returned("[" + '"x",' * MOST_TEXTS + "1]"),), "too long"),
        ],
    )
    def test_what_cannot_be_exchanged_alike(self, messages: Sequence[Message], why: str) -> None:
        """Where a place cannot be swapped, none is: names that stay, JSON within a string, another group, a name."""
        assert reason(ASKED, *messages) == why


@pytest.mark.parametrize("unit", ['"my sister", ', "[], "])
def test_it_takes_time_in_proportion(unit: str) -> None:
    """Results and arguments of any length and shape take no more than time in proportion to them."""

    def both(text: str) -> None:
        swapped_prompt("e1", [ASKED, called(f"[{text}1]"), returned(f'["{text}"]')])

    assert grows_in_proportion(both, unit, 4_000)
