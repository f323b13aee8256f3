"""The setting for models that think, in words, in requests and in replies."""

from typing import Any

import msgspec
import pytest

from auditors.clients.chat_format import parse_chat
from auditors.text import thinking
from auditors.text.thinking import forms, is_exhausted, merged, parse_thinking, told_apart
from auditors.types import Completion


@pytest.mark.parametrize("text", ["off", "on", "default", "budget=1", "budget=1000000"])
def test_a_setting_is_printed_as_it_is_written(text: str) -> None:
    """Reading and printing are each other's inverse."""
    assert str(parse_thinking(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "yes", "Off", "off=1", "budget", "budget=", "budget=0", "budget=-1", "budget=1.5", "budget=1000001",
     "budget=٣", "budget=" + "9" * 99, "x" * 9999],
)  # fmt: skip
def test_a_wrong_setting_is_named_in_one_line(text: str) -> None:
    """With what was written, cut where it is long, and what may be written."""
    with pytest.raises(
        ValueError, match=r"^thinking \".*\" is not known: write off, on, default or budget=N"
    ) as caught:
        parse_thinking(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("text", "tokens"), [("off", 0), ("on", 4096), ("default", 4096), ("budget=100", 132)])
def test_room_for_thoughts(text: str, tokens: int) -> None:
    """The budget and what closes a thought; a stated default without one; none where thinking is off."""
    assert parse_thinking(text).room == tokens


@pytest.mark.parametrize("text", ["off", "on", "budget=7"])
def test_every_setting_has_a_last_resort(text: str) -> None:
    """A template's variables come first, nothing at all comes last."""
    first, *_, last = forms(parse_thinking(text))
    is_on = text != "off"
    assert first["chat_template_kwargs"] == {"enable_thinking": is_on, "thinking": is_on}
    assert first.get("thinking_token_budget") == (7 if text == "budget=7" else None)
    assert last == {}


def test_own_fields_win() -> None:
    """Variable by variable in the template, field by field elsewhere."""
    [off, *_] = forms(thinking.OFF)
    own = {"chat_template_kwargs": {"enable_thinking": True, "style": "x"}, "min_p": 0.1}
    assert merged({**off, "reasoning_effort": "none"}, own) == {
        "chat_template_kwargs": {"enable_thinking": True, "thinking": False, "style": "x"},
        "reasoning_effort": "none",
        "min_p": 0.1,
    }
    assert merged(off, {"chat_template_kwargs": None}) == {"chat_template_kwargs": None}


def reply(message: dict[str, Any], finish_reason: str = "stop", **more: Any) -> Completion:
    """What a server's reply of this message is read as."""
    body = {"choices": [{"message": message, "finish_reason": finish_reason}], **more}
    return parse_chat(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("message", "thoughts", "field"),
    [
        ({"content": "She.", "reasoning": "He? I can't."}, "He? I can't.", "reasoning"),
        ({"content": "She.", "reasoning_content": "He? I can't."}, "He? I can't.", "reasoning_content"),
        ({"content": "<think>He? I can't.</think>\n\nShe."}, "He? I can't.", "text"),
        ({"content": "<think>b</think>She.", "reasoning": "a"}, "a\nb", "reasoning"),
    ],
)
def test_thoughts_are_told_apart(message: dict[str, Any], thoughts: str, field: str) -> None:
    """A field of thoughts, marks in the text, and both: thoughts are no part of the text, and their field is named."""
    found = reply(message)
    assert (found.text, found.reasoning, found.reasoning_field) == ("She.", thoughts, field)


@pytest.mark.parametrize("strange", [7, ["a"], {"a": 1}, ""])
def test_a_field_of_another_kind_is_none(strange: Any) -> None:
    """A server's own use of the name costs no reply."""
    found = reply({"content": "She.", "reasoning": strange})
    assert (found.text, found.reasoning, found.reasoning_field) == ("She.", None, None)


@pytest.mark.parametrize(
    ("found", "exhausted"),
    [
        (reply({"content": None, "reasoning": "He, or"}, "length"), True),
        (reply({"content": " \n", "reasoning": "He, or"}, "length"), True),
        (reply({"content": "<think>He, or"}, "length"), True),
        (reply({"content": "<think>He</think>\n\nShe is a"}, "length"), False),
        (reply({"content": None, "reasoning": "He"}, "stop"), False),
        (reply({"content": "She is a"}, "length"), False),
        (reply({"content": None}, "length"), False),
        (reply({"content": ""}, "length", usage={"completion_tokens_details": {"reasoning_tokens": 9}}), True),
        (reply({"content": "", "refusal": "No."}, "length", usage={"completion_tokens_details": {}}), False),
    ],
)
def test_thoughts_that_ran_out(found: Completion, exhausted: bool) -> None:
    """A reply that ended by its length without an answer, and with thoughts."""
    assert is_exhausted(found) is exhausted


def test_a_thought_that_the_template_opened() -> None:
    """Known of its server, an unmarked text is a thought; a field of its own says that the server has told it apart."""
    assert told_apart(Completion(text="He, or"), is_begun=True).text == ""
    assert told_apart(Completion(text="She.", reasoning="He"), is_begun=True).text == "She."
