"""The command that a report names makes the same run: the command line itself reads it so."""

import argparse
import shlex
from typing import Any

import msgspec
import pytest

from auditors.types import JudgeStamp
from benchmarks.reporting.report import command_of
from benchmarks.run.estimation import Precision
from gateway.cli import audit
from tests.benchmarks.reporting.test_report import result

RECORDED = result("a model")
ASKED = msgspec.structs.replace(
    RECORDED,
    provenance=msgspec.structs.replace(
        RECORDED.provenance, started="2026-11-23T10:00:00+00:00", base_url_host="127.0.0.1:8000"
    ),
)
PRECISION = Precision(
    demanded=0.02,
    demanded_in_unit=2.0,
    metric="ss",
    found=1.9,
    is_reached=True,
    n_planned=100,
    n_asked=80,
    looks=2,
    looks_planned=3,
    level_of_a_look=0.99,
)


def parsed(command: str) -> dict[str, Any]:
    """What the command line takes the words for."""
    program, verb, *words = shlex.split(command)
    assert (program, verb) == ("biasgate", "audit")
    parser = argparse.ArgumentParser()
    audit.add_arguments(parser)
    return vars(parser.parse_args(words))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"mode": "sample", "protocol": "corrected", "samples": None, "limit": None}),
        ({"samples": 3, "limit": 50, "few_shot": 2}, {"samples": 3, "limit": 50, "few_shot": 2}),
        ({"mitigation": "abstract", "subset": "eval"}, {"mitigation": "abstract", "subset": "eval"}),
        ({"precision": PRECISION}, {"precision": 0.02}),
        ({"seed": 7, "mode": "exact", "protocol": "paper"}, {"seed": 7, "mode": "exact", "protocol": "paper"}),
    ],
)
def test_the_command_says_what_the_run_was(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each option that moves a number is in the command, as the command line reads it."""
    found = parsed(command_of(msgspec.structs.replace(ASKED, **changes)))
    assert found | expected == found
    assert (found["action"], found["suite"], found["model"]) == ("run", "stereoset", "a model")
    assert found["base_url"] == "http://127.0.0.1:8000"


def test_fields_and_temperature_are_quoted_for_the_shell() -> None:
    """JSON with blanks and quotation marks comes back whole."""
    run = msgspec.structs.replace(ASKED, extra_body={"min_p": 0.1, "note": "it's"}, temperature=0.7, thinking="off")
    words = shlex.split(command_of(run))
    assert msgspec.json.decode(words[words.index("--extra-body") + 1]) == {"min_p": 0.1, "note": "it's"}
    assert words[words.index("--temperature") + 1] == "0.7"
    assert words[words.index("--thinking") + 1] == "off"


def test_another_judge_is_named() -> None:
    """A judge that is not the audited model itself is in the command."""
    stamps = [JudgeStamp(model="judge", prompt_sha256="0" * 64, form="text")]
    run = msgspec.structs.replace(ASKED, provenance=msgspec.structs.replace(ASKED.provenance, judge=stamps))
    assert parsed(command_of(run))["judge_model"] == "judge"


def test_recorded_replies_are_scored() -> None:
    """Of replies that nobody asked for here the command is the one that scores them."""
    found = parsed(command_of(RECORDED))
    assert (found["action"], str(found["responses"])) == ("score", "responses.jsonl")
