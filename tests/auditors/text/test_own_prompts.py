"""Files of own prompts: what is taken, and the line that is said of each that is not."""

import json
from typing import Any

import pytest

from auditors.text.own_prompts import (
    MOST_BYTES,
    MOST_LINE_BYTES,
    MOST_PROMPTS,
    MOST_TAGS,
    OwnPrompt,
    PromptFileError,
    read_prompts,
)
from auditors.types import Message


def read(*lines: Any) -> list[OwnPrompt]:
    return read_prompts("\n".join(map(json.dumps, lines)).encode())


def test_a_prompt_is_text_or_messages() -> None:
    """Either is a conversation; without an id the line gives the name, and empty lines are passed over."""
    said = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello, my sister is ill."}]
    first, second = read_prompts(
        b'\xef\xbb\xbf{"prompt": "Hello"}\r\n\r\n' + json.dumps({"messages": said, "id": "b", "tags": ["x"]}).encode()
    )

    assert (first.name, first.messages) == ("line-1", (Message("user", "Hello"),))
    assert (second.name, second.tags) == ("b", ("x",))
    assert second.messages == (Message("system", "Be kind."), Message("user", "Hello, my sister is ill."))


def test_versions_of_ones_own() -> None:
    """The first is the prompt, the others are compared with it."""
    [one] = read({"axis": "gender", "swaps": {"woman": "Meine Schwester?", "man": "Mein Bruder?"}})

    assert one.messages == (Message("user", "Meine Schwester?"),)
    assert list(one.versions) == ["woman", "man"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[1]", "line 2: Expected `object`, got `array`"),
        (b'{"promt": "x"}', "line 2: Object contains unknown field `promt`"),
        (b'{"prompt": "x"', "line 2: Input data was truncated"),
        (b'{"prompt": "\xff"}', "line 2: not UTF-8"),
        (b'{"prompt": "\\ud800"}', "line 2: "),
        (b'{"prompt": ' + b"[" * 60_000, "line 2: "),
        (b'{"messages": ' + b"[" * 60_000, "line 2: "),
        (b'{"prompt": "' + b"x" * MOST_LINE_BYTES + b'"}', f"bytes are more than {MOST_LINE_BYTES}: shorten"),
        (b'{"prompt": "   "}', "line 2: a prompt of blank space alone"),
        (b"{}", "line 2: has none of prompt, messages, swaps: give exactly one"),
        (b'{"prompt": "x", "messages": [{"role": "user", "content": "x"}]}', "has prompt and messages: give exactly"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', 'the last message is of role "assistant"'),
        (b'{"messages": [{"role": "tool", "content": "x"}]}', "line 2: Invalid enum value 'tool'"),
        (b'{"prompt": "x", "axis": "sex"}', 'line 2: axis "sex" is unknown: use one of gender, '),
        (b'{"prompt": "x", "groups": ["man"]}', "line 2: groups needs axis"),
        (b'{"prompt": "x", "axis": "gender", "groups": ["lady"]}', '"lady" is not a group of gender: use one of man, '),
        (b'{"axis": "gender", "swaps": {"man": "x"}}', "line 2: swaps has 1 versions: give 2 to 20"),
        (b'{"axis": "gender", "swaps": {"man": "x", "woman": "y"}, "groups": ["man"]}', "leave groups out"),
        (b'{"prompt": "x", "id": "a/b"}', "line 2: `$.id`: must be a letter or digit and up to 63 letters"),
        (b'{"prompt": "x", "id": "one"}', 'line 2: id "one" is that of line 1: every prompt needs its own'),
    ],
)
def test_a_line_that_is_not_taken(line: bytes, words: str) -> None:
    """One line of text: which line, what is wrong, what to do."""
    with pytest.raises(PromptFileError) as caught:
        read_prompts(b'{"prompt": "fine", "id": "one"}\n' + line)

    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_limits_of_a_file() -> None:
    """Bytes, prompts and tags are bounded; so many as are allowed are taken."""
    assert len(read_prompts(b'{"prompt":"x"}\n' * MOST_PROMPTS)) == MOST_PROMPTS
    for content, words in (
        (b'{"prompt":"x"}\n' * (MOST_PROMPTS + 1), f"line {MOST_PROMPTS + 1}: more than {MOST_PROMPTS} prompts"),
        (b" " * (MOST_BYTES + 1), f"more than {MOST_BYTES}: split the file"),
        (b"\n \n", "holds no prompt"),
        (b"\n".join(b'{"prompt":"x","tags":["%d"]}' % n for n in range(MOST_TAGS + 1)), "different tags"),
    ):
        with pytest.raises(PromptFileError, match=words):
            read_prompts(content)
