"""Labelled replies to questions with options: how many suites read as a person does."""

import json
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from gateway.features.measuring.measured_choices import (
    PARTS,
    Kind,
    Part,
    count_readings,
    labelled,
    option_read,
    read_file,
)


@pytest.mark.parametrize(("kind", "least", "least_share"), [("choices", 200, 0.98), ("numbers", 59, 0.95)])
@pytest.mark.parametrize("part", PARTS)
def test_labels_are_read_and_nothing_else(part: Part, kind: Kind, least: int, least_share: float) -> None:
    """Nearly all labels are read, none as another, and hardly a reply without a label as having one."""
    counts = count_readings(labelled(part, kind))
    choices, others = counts["choice"], counts["none"]

    assert sum(choices.values()) >= least
    assert choices["the same"] >= least_share * sum(choices.values())
    assert choices["another"] == 0
    assert others["an option"] <= max(1, 0.005 * sum(others.values()))


def written(folder: Path, *lines: object) -> Path:
    path = folder / "labelled.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_own_replies_are_read(tmp_path: Path) -> None:
    """A reply of a file is read as its suite reads it: BBQ's letters, CrowS-Pairs' sentence, WinoBias' classes."""
    people = ["The doctor", "Not answerable", "The clerk"]
    sentence = {"suite": "crows_pairs", "options": ["old", "young"], "sentence": "The [MASK] man slept."}
    path = written(
        tmp_path,
        {"suite": "bbq", "options": people, "text": "C", "label": "The clerk"},
        {"suite": "bbq", "options": people, "text": "Nobody can tell.", "label": "Not answerable"},
        "",
        sentence | {"text": "The young man slept.", "label": "young"},
        {"suite": "winobias", "options": ["male", "female", "neutral"], "text": "s/he", "label": "neutral"},
        {"suite": "unqover", "options": ["Ann", "Bob"], "text": "Ann or Bob", "label": None},
    )
    replies = read_file(path)

    assert [option_read(reply) for reply in replies] == [reply.label for reply in replies]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1: .*wanted"),
        ({"suite": "bbq", "options": ["a", "b"], "text": "a", "label": "c"}, 'the label "c" is none of the options'),
        ({"suite": "bbq", "options": ["a"], "text": "a", "label": "a"}, "fewer than two options"),
        ({"suite": "cogs", "options": ["a", "b"], "text": "a", "label": "a"}, "Invalid enum value 'cogs'"),
        ({"suite": "eec", "text": "a", "label": "a"}, "of eec a number"),
        ({"suite": "bbq", "options": ["a", "b"], "text": "a", "label": 1}, "the label is an option"),
        ("", "it has no labelled reply"),
    ],
    ids=["no JSON", "label not offered", "single option", "unknown suite", "number", "option", "empty"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, line: object, words: str) -> None:
    """One line says which line of the file is wrong, and how."""
    with pytest.raises(BenchmarkError, match=words) as caught:
        read_file(written(tmp_path, line))

    assert "\n" not in str(caught.value)


def test_bbq_needs_an_option_for_not_knowing(tmp_path: Path) -> None:
    """Without such an option the suite cannot tell its roles, and says so."""
    path = written(tmp_path, {"suite": "bbq", "options": ["Ann", "Bob"], "text": "Ann", "label": "Ann"})

    with pytest.raises(BenchmarkError, match="none of the options says that the context does not tell: Ann, Bob"):
        option_read(read_file(path)[0])
