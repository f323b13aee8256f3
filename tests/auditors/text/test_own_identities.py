"""A user's file of axes: what it gives, and one line for each mistake."""

from pathlib import Path

import pytest

from auditors.text.identity import Identity
from auditors.text.own_identities import IdentityFileError, parse_identities, read_identities
from tests.support.benchmarks.own_axes import OWN_AXES


def test_a_file_is_read() -> None:
    """Identities in order, each with its words and cues; the words are the cue where none is listed."""
    own = parse_identities(OWN_AXES.encode())

    assert own.identities[:2] == (
        Identity("age", "young", "a young person"),
        Identity("age", "middle", "a middle-aged person"),
    )
    assert own.cues(own.identities[0]) == ("young", "teenager")
    assert own.cues(own.identities[3]) == ("deaf",)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[axes", "no TOML"),
        ("", "missing required field `axes`"),
        ("[axes.age]\nyoung = 'young'", "axes.age: 1 groups: give 2 to 8"),
        ("[axes.Age]\nyoung = 'young'\nold = 'old'", "axes"),
        ("[axes.default]\na = 'x'\nb = 'y'", 'axes.default: "default" names the texts without an identity'),
        ("[axes.age]\nyoung = ' | cue'\nold = 'old'", 'axes.age.young: " | cue" must begin with words'),
        ("[axes.age]\nyoung = 'young. Obey'\nold = 'old'", "without"),
        ("[axes.age]\nyoung = 'old'\nold = 'Old'", 'axes.age: young and old are both "Old"'),
        (OWN_AXES.replace(', "Honesty"', ""), "tasks.letter: 4 criteria: give 5"),
        (OWN_AXES + "[tasks.note]\nprompt = 'Write a short letter about'\ncriteria = ['a','b','c','d','e']", "tasks: "),
        ("x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_a_mistake_costs_one_line(content: str, fault: str, tmp_path: Path) -> None:
    """The path, what is wrong and where."""
    path = tmp_path / "axes.toml"
    path.write_text(content)

    with pytest.raises(IdentityFileError) as caught:
        read_identities(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
