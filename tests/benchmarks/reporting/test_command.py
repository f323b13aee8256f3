"""The command that a report names makes the same run, and the same numbers from the same replies."""

import argparse
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.types import JudgeStamp
from benchmarks.reporting.report import command_of
from benchmarks.run import directory
from benchmarks.run.estimation import Precision
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Addresses, Result
from benchmarks.run.score import provenance_of, score
from benchmarks.suites.protocol import Suite
from benchmarks.suites.registry import SUITES
from gateway.cli import audit
from gateway.cli.audit import jobs, run_suites
from tests.benchmarks.reporting.test_report import result
from tests.support.simulated import running_simulator

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
        ({"axes": ("race", "gender")}, {"axes": "race,gender"}),
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


ADDRESSES = Addresses(
    base_url="https://model:8443/v1", judge_base_url="http://judge:1/v1", embedder_base_url="http://embedder:2/v1"
)


@pytest.mark.parametrize(
    ("suite", "mode"), [pytest.param(s, mode, id=f"{s.name}-{mode}") for s in SUITES.values() for mode in s.modes]
)
def test_the_command_asks_the_same_of_the_same_servers(suite: Suite, mode: str) -> None:
    """Of every suite, mode and protocol: the command line makes the plan and the addresses of the run from it."""
    for protocol in suite.protocols:
        options = msgspec.convert(
            {
                "suite": suite.name,
                "model": "m",
                "mode": mode,
                "protocol": protocol,
                "data": "embedded",
                "seed": 3,
                "limit": 250,
                "axes": list(suite.axes[:1]),
                "embedder": "minilm",
            },
            RunOptions,
        )
        plan = prepare(options)
        stamps = [JudgeStamp(model="judge", prompt_sha256="0" * 64, form="text")] if suite.needs_judge else []
        addresses = msgspec.structs.replace(ADDRESSES, through_gateway=protocol == "paper")
        provenance = msgspec.structs.replace(
            provenance_of(plan, {}, started="2026-11-28", addresses=addresses),
            judge=stamps,
            embedder="all-MiniLM-L6-v2",
        )
        [job], left_out = jobs.new(argparse.Namespace(**parsed(command_of(score(plan, {}, provenance)))))

        judge = "judge" if suite.needs_judge else None
        expected = msgspec.structs.replace(options, judge_model=judge, data=plan.dataset.kind)
        assert (job.plan.options, left_out) == (expected, [])
        assert job.plan.prompt_sha256 == plan.prompt_sha256
        assert (job.about.base_url, job.about.through_gateway) == (addresses.base_url, addresses.through_gateway)
        assert job.about.embedder_base_url == addresses.embedder_base_url
        assert job.about.judge_base_url == (addresses.judge_base_url if suite.needs_judge else None)


@pytest.mark.parametrize(
    ("suite", "more"),
    [
        ("stereoset", "--axes race --data embedded --limit 20 --repeat-share 0.5"),
        ("crows_pairs", "--mode exact --data embedded --limit 12"),
        ("decision,implicit_association", "--axes race --data embedded --limit 12 --judge-model simulated-judge"),
        ("cogs", "--limit 9 --data embedded --evaluate generated"),
    ],
)
async def test_the_command_makes_the_same_numbers(
    suite: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked of the same model, which answers its first requests always the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIASGATE_HOME", str(tmp_path / "home"))
    run = f"biasgate audit run --model simulated --quiet --suite {suite}"
    if "--evaluate" in more:
        async with running_simulator() as url:
            await asked(f"{run} --limit 9 --data embedded --base-url {url} --out generated")
    async with running_simulator() as url:
        first = await asked(f"{run} {more} --base-url {url} --judge-base-url {url} --out first")
    async with running_simulator() as other_url:
        again = await asked(f"{command_of(first).replace(url, other_url)} --quiet --out again")

    assert again.estimates == first.estimates
    assert (again.counts, again.joined_data, again.evaluate) == (first.counts, first.joined_data, first.evaluate)
    assert again.provenance.prompt_sha256 == first.provenance.prompt_sha256
    assert (again.repeats is None) == (first.repeats is None)


async def asked(command: str) -> Result:
    """Return the result of a run that the command asks for; of two suites that of the first."""
    arguments = argparse.Namespace(**parsed(command))
    assert await run_suites._run(arguments) == 0
    several = "," in arguments.suite
    return directory.read_result(arguments.out / arguments.suite.split(",")[0] if several else arguments.out)
