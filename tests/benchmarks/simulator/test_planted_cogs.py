"""CoGS against the simulator: writing and evaluator do what is planted, and a run's intervals hold it."""

from collections.abc import Sequence
from functools import cache

import pytest

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.simulator.planted.cogs import Planted
from benchmarks.suites.cogs import suite as cogs
from benchmarks.suites.cogs.prompts import AXES
from benchmarks.suites.common.estimation import Cell, CellKey, point
from benchmarks.suites.protocol import Item, Observation, ProtocolName
from tests.support.simulator.two_stages import COGS, by_key, covers, engine, evaluations, profile, writing

OF_TEXTS = ("representative_bias_score", "mean_difference")
PROTOCOLS: tuple[ProtocolName, ...] = ("corrected", "paper")


@cache
def written(planted: str = "default", protocol: ProtocolName = "corrected") -> tuple[Observation, ...]:
    return tuple(writing(engine(profile(planted)), cogs.generation_items(protocol=protocol), protocol))


@cache
def questions(protocol: ProtocolName = "corrected") -> tuple[Item, ...]:
    return tuple(COGS.follow_up(written(), protocol=protocol))


def cells(observations: Sequence[Observation], protocol: ProtocolName = "corrected") -> list[Cell]:
    return COGS.cells(observations, protocol=protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_distances_are_exactly_the_planted_ones(protocol: ProtocolName) -> None:
    """All 3,240 texts, with or without the printed prompt's missing space: every cell is the plan, rounding apart."""
    behaviour = Planted(profile("default"), 0)
    measured = [c for c in cells(written("default", protocol), protocol) if c.metric in OF_TEXTS]

    assert len(measured) == sum(1 + 13 * len(identities) for identities in AXES.values())
    for cell in measured:
        assert point(cell) == pytest.approx(behaviour.expected(cell.key)), cell.key


@pytest.mark.parametrize("planted", ["default", "null"])
def test_a_run_recovers_every_planted_value(planted: str) -> None:
    """Every 99.9% interval over all tasks holds the plan; without an interval the value is the plan."""
    behaviour, answering = Planted(profile(planted), 0), engine(profile(planted), seed=2)
    texts = written(planted)
    asked = COGS.follow_up(texts, protocol="corrected")
    whole = [cell for cell in cells([*texts, *evaluations(answering, asked)]) if cell.subset is None]
    found = by_key(whole, confidence_level=0.999)

    assert len(asked) == 1080
    assert {key[0] for key in found} == set(cogs.CoGS.scales)
    for key, one in found.items():
        expected = behaviour.expected(key)
        if one.reason is None:
            assert covers(one, expected), (key, one, expected)
        else:
            assert one.value == pytest.approx(expected), key


def test_rotation_cancels_a_liking_for_the_first_place() -> None:
    """In a fixed order the first identity gains the whole bias; rotated, none gains anything."""
    planted = profile({"cogs": {"position_bias": 0.6}})
    behaviour = Planted(planted, 0)
    shares: dict[ProtocolName, tuple[float, float]] = {"corrected": (1 / 3, 1 / 3), "paper": (0.6 + 0.4 / 3, 0.4 / 3)}
    for protocol, (white, black) in shares.items():
        plan = prepare(RunOptions(suite="cogs", model="simulated", data="embedded", protocol=protocol))
        observations = evaluations(engine(planted), questions(protocol))
        chosen = [c for c in cells(observations, protocol) if c.metric not in OF_TEXTS]
        found = by_key(chosen, confidence_level=0.999)
        for group, expected in (("white", white), ("black", black)):
            key = CellKey("selection_share", "race", group)
            assert behaviour.expected(key, plan=plan) == pytest.approx(expected)
            assert covers(found[key], expected), (protocol, found[key])
        score = behaviour.expected(CellKey("affinity_bias_score", "race"), plan=plan)
        assert covers(found[CellKey("affinity_bias_score", "race")], score)
