"""Every registered suite holds what a suite must: its prompts, its denominators, its intervals, its card.

`tests/plugins/test_other_wheels.py` puts another wheel's suite to the same tests. A change of a prompt raises the
suite's version and writes the hashes again: `python -m tests.benchmarks.suites.test_conformance`.
"""

import inspect
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from auditors.types import Estimate
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.common.estimation import CellKey, estimate, point
from benchmarks.suites.protocol import Observation, ProtocolName, Reply, Suite
from benchmarks.suites.registry import SUITES
from tests.benchmarks import test_recorded_results as recorded

PROMPTS = Path(__file__).with_name("prompts.json")
"""Hash of all prompts of the built-in items at seed 0, by suite and protocol."""
EACH = pytest.mark.parametrize(
    ("suite", "protocol"),
    [
        pytest.param(suite, protocol, id=f"{suite.name}-{protocol}")
        for suite in SUITES.values()
        for protocol in suite.protocols
    ],
)
EVERY = pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
LIMIT = 300


@cache
def plan(suite: str, protocol: ProtocolName, seed: int = 0, limit: int | None = LIMIT) -> Plan:
    return prepare(RunOptions(suite=suite, model="m", data="embedded", protocol=protocol, seed=seed, limit=limit))


@cache
def replies(suite: Suite, protocol: ProtocolName) -> Sequence[Observation]:
    """Recorded replies; of a suite without a recording, each item answered by its choices in turn."""
    if (name := f"{suite.name}.{protocol}.sample") in recorded.RUNS:
        return list(recorded.scored(name)[1])
    made = []
    for place, item in enumerate(plan(suite.name, protocol).items):
        text = item.choices[place % len(item.choices)].text if item.choices else "Yes."
        parsed = suite.parse(item, text, protocol=protocol)
        made.append(
            Observation(item, Reply(item_id=item.item_id, text=text, status=parsed.status, parsed=parsed.value))
        )
    return made


def without_answer(suite: Suite, protocol: ProtocolName, reply: Reply) -> list[Observation]:
    """Every item with the same reply, under its own id."""
    items = plan(suite.name, protocol).items
    return [Observation(item, Reply(item_id=item.item_id, status=reply.status, text=reply.text)) for item in items]


def estimates(suite: Suite, observations: Sequence[Observation], protocol: ProtocolName) -> list[Estimate]:
    return [estimate(cell, seed=0) for cell in suite.cells(observations, protocol=protocol)]


def values(
    suite: Suite, observations: Sequence[Observation], protocol: ProtocolName
) -> dict[CellKey, tuple[float | None, int]]:
    """Value and n of each number that is defined."""
    cells = suite.cells(observations, protocol=protocol)
    return {cell.key: (value, cell.n) for cell in cells if (value := point(cell)) is not None}


@pytest.mark.parametrize(("name", "sha256"), json.loads(PROMPTS.read_text()).items())
def test_prompts_are_pinned(name: str, sha256: str) -> None:
    """A change of any prompt changes these hashes and needs a new version of the suite."""
    suite, _, protocol = name.partition(".")
    assert plan(suite, protocol, limit=None).prompt_sha256 == sha256


def test_every_own_suite_is_pinned() -> None:
    """In each of its protocols."""
    own = [suite for suite in SUITES.values() if type(suite).__module__.startswith("benchmarks.")]
    names = {f"{suite.name}.{protocol}" for suite in own for protocol in suite.protocols}
    assert json.loads(PROMPTS.read_text()).keys() == names


@EACH
def test_the_seed_decides_the_orders(suite: Suite, protocol: ProtocolName) -> None:
    """The same seed gives the same items, byte by byte."""
    once, again = (list(suite.items(suite.load("embedded"), protocol=protocol, seed=1))[:LIMIT] for _ in range(2))
    assert once == again


@EACH
def test_errors_are_in_no_denominator(suite: Suite, protocol: ProtocolName) -> None:
    """A reply that never came changes no number: values and n are those of the others. Without any none is defined."""
    observations = replies(suite, protocol)
    others = [one for place, one in enumerate(observations) if place % 4]
    with_errors = [
        one if place % 4 else Observation(one.item, Reply(item_id=one.item.item_id, sample=one.reply.sample))
        for place, one in enumerate(observations)
    ]
    assert values(suite, with_errors, protocol) == values(suite, others, protocol)
    for one in estimates(suite, without_answer(suite, protocol, Reply(item_id="")), protocol):
        assert (one.value, one.n) == (None, 0), one
        assert one.reason


@EACH
def test_refusing_everything_never_looks_unbiased(suite: Suite, protocol: ProtocolName) -> None:
    """Refusing all gives rates of 100, a reason for each missing number, no ideal value and no follow-up question."""
    refused = without_answer(suite, protocol, Reply(item_id="", status="refusal", text="I can't help with that."))
    found = estimates(suite, refused, protocol)
    rates = {one.value for one in found if one.metric == "refusal_rate" and one.n}
    assert rates == {100.0}
    for one in found:
        assert one.value is not None or one.reason, one
        if protocol == "corrected" and one.metric != "malformed_rate":  # of which a model that only refuses has none
            assert one.value is None or one.value != suite.scales[one.metric].ideal, one
    assert protocol != "corrected" or suite.follow_up(refused, protocol=protocol) == []


@EACH
def test_intervals_hold_their_values(suite: Suite, protocol: ProtocolName) -> None:
    """Every interval holds its value, and every missing one has a reason."""
    for one in estimates(suite, replies(suite, protocol), protocol):
        if one.lower is None or one.upper is None:
            assert one.reason, one
        else:
            assert one.value is not None, one
            assert one.lower <= one.value <= one.upper, one


@EVERY
def test_card(suite: Suite) -> None:
    """Each card has version, licence, hashes, deviations, criticism, a warning, and reasons for no neutral value."""
    card = Path(inspect.getfile(type(suite))).with_name("card.md").read_text(encoding="utf-8")

    assert f"version {suite.version}" in card
    assert suite.licence in card
    for digest in suite.sha256.values():
        assert digest in card
    for heading in ("Source", "Metrics", "Deviations", "Known criticism", "Changelog"):
        assert f"\n## {heading}" in card
    assert "Content warning" in card
    assert ("**no neutral value**" in card) == (suite.scales[suite.headline.metric].ideal is None)


@EVERY
def test_hashes_and_licence(suite: Suite) -> None:
    """Every kind of data is pinned by a sha256, canonical data by hand at least by what was fetched."""
    is_unpinned = suite.source is not None and not suite.source.content_sha256
    assert suite.sha256.keys() | ({"canonical"} if is_unpinned else set()) == suite.n_items.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in suite.sha256.values())
    assert suite.licence
    if suite.source is not None:
        assert suite.source.name == suite.name
        assert suite.source.licence == suite.licence
        assert suite.source.content_sha256 == suite.sha256.get("canonical", "")


@EVERY
def test_embedded_items_are_the_pinned_ones(suite: Suite) -> None:
    """The built-in items load, have their pinned hash and number, and ids that differ."""
    dataset = suite.load("embedded")
    items = list(suite.items(dataset, protocol=suite.protocols[0], seed=0))

    assert dataset.sha256 == suite.sha256["embedded"]
    assert len(items) == len({item.item_id for item in items}) == suite.n_items["embedded"]
    assert {item.axis for item in items} - {"default"} == set(suite.axes)


@EVERY
def test_reader_is_told(suite: Suite) -> None:
    """The report can say what the suite does not show, and `corrected` is the default."""
    assert len(suite.does_not_show) > 100
    assert "`" not in suite.does_not_show + "".join(scale.reading for scale in suite.scales.values())
    assert suite.protocols[0] == "corrected"


if __name__ == "__main__":
    hashes = {
        f"{suite.name}.{protocol}": plan(suite.name, protocol, limit=None).prompt_sha256
        for suite in SUITES.values()
        for protocol in suite.protocols
    }
    PROMPTS.write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")
