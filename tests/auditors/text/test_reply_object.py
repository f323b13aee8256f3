"""The JSON object in a model's reply, in the wrappings in which models put it."""

import json
import re

import pytest

from auditors.text.reply_object import NoObjectError, read_reply_object
from tests.support.processor_time import grows_in_proportion, processor_seconds

PLAIN = '{"refused": false, "findings": [{"group": "man", "score": 1}]}'
VALUE = json.loads(PLAIN)


@pytest.mark.parametrize(
    "reply",
    [
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}",
        f"Sure! Here is my verdict about {{men}}:\n\n{PLAIN}\n\nI hope that this helps.",
        f"I don't think it's biased, so: {PLAIN}",
        f"The set {{a, b is open. {PLAIN}",
        f"$\\boxed{{{PLAIN}}}$",
        PLAIN.replace("]", ",]").replace("}]", ",}]").replace("}", " , }"),
        PLAIN.replace('"', "'").replace("false", "False"),
        PLAIN.replace('"group"', "“group”").replace('"man"', "“man”"),
        PLAIN.replace('"refused"', "refused").replace('"findings"', "findings"),
        PLAIN.replace('score": 1', 'score": +1'),
        PLAIN.replace("}]", "}] // the man is praised\n")
        .replace(": [", ": [ # who's \"best\n")
        .replace("{", "{/* } */", 1),
        re.sub('"([a-z])', lambda match: match[0].upper(), PLAIN).replace("Man", "man"),
        "```yaml\nrefused: false\nfindings:\n  - group: man # praised\n    score: 1\n```",
        'Refused: false\n"findings":\n- "group": "man"\n  score: 1',
        PLAIN + PLAIN,
        f"{PLAIN}\n{json.dumps(VALUE, indent=2)}",
        PLAIN + PLAIN[:40],
        PLAIN[:-1],
        f"[{PLAIN}]",
        f'{{"verdict": {PLAIN}}}',
        json.dumps({"answer": PLAIN}),
        json.dumps(PLAIN),
        f'{{"thought": "none is favoured"}}\n{PLAIN}',
        f'{{"refused": true|false, "findings": [...]}}\n{PLAIN}',
    ],
    ids=lambda reply: reply[:30],
)
def test_wrappings(reply: str) -> None:
    """The object is the same, and whole."""
    assert read_reply_object(reply, "refused", "findings") == (VALUE, False)


@pytest.mark.parametrize(
    "reply",
    [
        *[None, "", "none", "[1, 2]", "{}", '{"other": 1}', '{"refused": true|false, "findings": [...]}'],
        PLAIN + PLAIN.replace("1", "2"),
        '{"refused": false or true}',
    ],
)
def test_no_object(reply: str | None) -> None:
    """Nothing, another object, a template, and two that differ."""
    with pytest.raises(NoObjectError):
        read_reply_object(reply, "refused", "findings")


def test_a_cut_object() -> None:
    """Its whole members up to the end of the reply."""
    assert read_reply_object(PLAIN[:-3], "refused") == (VALUE, True)
    assert read_reply_object(PLAIN[:53], "refused") == ({"refused": False, "findings": [{"group": "man"}]}, True)


UNITS = ["{", "{}", '\\"', "{ '", "{'", '{"a":1,', '{"a":{"b":', "{“", "/,", '{"a":[', "{ab ", " ", ',"', ",//", "/*"]


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_takes_time_in_proportion_to_the_text(unit: str) -> None:
    """Eight times the text takes some eight times as long, and 100 kB some seconds at most."""

    def read(text: str) -> None:
        with pytest.raises(NoObjectError):
            read_reply_object("{" + text, "refused")

    assert grows_in_proportion(read, unit, 12_500)
    assert processor_seconds(lambda: read(unit * (100_000 // len(unit))), rounds=1) < 10
