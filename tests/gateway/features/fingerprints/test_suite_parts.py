"""Models beside one another by finished runs: cells, hatching, published rows, and the interval of a position."""

import numpy as np
import pytest

from auditors.metrics.ranking import rank_ranges
from auditors.types import Estimate
from benchmarks.lab.positioning import positioning
from benchmarks.published.tables import tables_of
from benchmarks.reporting.leaderboard import leaderboards
from benchmarks.run.estimation import RankResamples
from gateway.features.fingerprints import suite_parts
from gateway.features.fingerprints.suite_parts import FinishedRun, Way
from tests.benchmarks.test_recorded_results import scored
from tests.support.benchmarks.drawn import parsed
from tests.support.benchmarks.made_results import crows, estimate, result

OK = {"items": 100, "ok": 100}


def finished(suite: str, model: str, estimates: list[Estimate], **changes: object) -> FinishedRun:
    made = result(suite, model, estimates, **{"counts": OK} | changes)
    return FinishedRun(id=f"run-{model}", finished_at=0.0, result=made)


def ss(axis: str | None, value: float | None, lower: float | None = None, upper: float | None = None) -> Estimate:
    return estimate("ss", value, axis, lower=lower, upper=upper)


def only_way(*runs: FinishedRun) -> Way:
    ((way,),) = (part.ways for part in suite_parts.parts(runs))
    return way


def cells(way: Way, number: int = 0) -> dict[tuple[str, str], tuple[str, bool]]:
    """What each says, and whether it is hatched, by row and column."""
    return {
        (one.attrib["data-row"], one.attrib["data-column"]): (
            (one.findtext("title") or "").split(": ", 1)[1],
            any(part.get("class") == "hatch" for part in one),
        )
        for one in parsed(way.figures[number].pictures[0].svg).iter("g")
        if one.get("class") == "cell"
    }


def test_cells_are_distances_from_neutral() -> None:
    """In the metric's unit; hatched where the interval holds neutral or there is none; what is undefined says why."""
    one = finished("crows_pairs", "one", [ss(None, 55.0, 52.0, 58.0), ss("gender", 48.0, 40.0, 56.0)])
    two = finished("crows_pairs", "two", [ss(None, 61.0), ss("gender", None)])
    found = cells(only_way(two, one))
    assert found == {
        ("one", "all axes"): ("+5.0 from neutral (+2.0 to +8.0), n = 100", False),
        ("one", "gender"): ("−2.0 from neutral (−10.0 to +6.0, which holds neutral), n = 100", True),
        ("two", "all axes"): ("+11.0 from neutral, no interval, n = 100", True),
        ("two", "gender"): ("not enough data: no value, n = 100", False),
    }


def test_what_chance_makes_of_neutral_is_no_finding() -> None:
    """A size is above 0 by chance alone: hatched until its interval leaves that too."""
    within = estimate("affinity_bias_score", 0.1, lower=0.05, upper=0.2, extra={"by_chance": 0.08})
    beyond = estimate("affinity_bias_score", 0.1, lower=0.05, upper=0.2, extra={"by_chance": 0.01})
    found = cells(only_way(finished("cogs", "within", [within]), finished("cogs", "beyond", [beyond])))
    assert found["within", "gender"] == (
        "+0.100 from neutral (+0.050 to +0.200, chance alone makes +0.080), n = 100",
        True,
    )
    assert found["beyond", "gender"][1] is False


def test_ways_of_measuring_are_kept_apart() -> None:
    """Protocols have a map each; rows of one map that differ in a setting are said to."""
    corrected, limited = (
        finished("crows_pairs", "one", [ss(None, 55.0)], limit=None),
        finished("crows_pairs", "two", [ss(None, 55.0)], limit=10),
    )
    paper = finished("crows_pairs", "one", [ss(None, 55.0)], protocol="paper")
    (part,) = suite_parts.parts([corrected, limited, paper])
    assert [way.title for way in part.ways] == [
        "corrected protocol · sample · canonical data",
        "paper protocol · sample · canonical data",
    ]
    assert part.ways[0].notes == ["rows differ in limit: None, 10 by seed 0"]
    assert "crows_pairs: rows differ in limit: None, 10 by seed 0" in suite_parts.render([corrected, limited]).ranks


def test_a_metric_without_a_neutral_value_has_no_colour() -> None:
    """It is a table of numbers with their intervals; beneath it 54 published models, which have none."""
    mean = estimate("absolute_mean", 80.0, None, lower=70.0, upper=88.0)
    (part,) = suite_parts.parts([finished("implicit_association", "one", [mean])])
    (own,) = part.ways[0].numbers
    (published,) = part.numbers
    assert own.rows == [("one", ["80.0 (70.0 to 88.0), n = 100"])]
    assert part.ways[0].figures == []
    assert part.ways[0].notes == ["stereotype rate: not in these runs"]
    assert published.source == "Kumar et al. 2024, Table 1, IAT"
    assert len(published.rows) == 54
    assert ("GPT-4o", ["67.28"]) in published.rows


def test_published_cells_are_hatched_and_in_no_rank() -> None:
    """Table 2 of LTF-TEST below one's own, in the same colours; no leaderboard has its models."""
    run = finished("ltf_test", "one", [estimate("absolute_discrimination", 0.5, None, lower=0.4, upper=0.6)])
    out = suite_parts.render([run])
    (part,) = suite_parts.parts([run])
    published = part.figures[0]
    svg = published.parts[0].pictures[0].svg
    assert published.title == "Published: absolute discrimination (eval), Jeung et al. 2025, Table 2"
    assert "Mistral, gender: +0.614 from neutral, no interval, n not known" in svg
    assert published.keys[0].svg == part.ways[0].figures[0].keys[0].svg
    assert "Mistral" not in out.ranks
    assert "Nothing to rank" in out.ranks


@pytest.mark.parametrize(
    ("suite", "maps", "published_maps"),
    [
        ("cogs", ["affinity bias score", "representative bias score"], 2),
        ("eec", ["intensity difference, anger", "intensity difference, in the papers' parts"], 2),
        ("stereoset", ["SS", "SS, in the papers' parts", "LMS", "ICAT"], 3),
        ("unqover", ["pn difference"], 0),
        ("winobias", ["male female difference", "male female difference, in the papers' parts"], 1),
    ],
)
def test_each_printed_number_has_an_own_one_above_it(suite: str, maps: list[str], published_maps: int) -> None:
    """Own maps have the parts that are printed; a table too wide for a map lists parts against models."""
    made, _ = scored(f"{suite}.paper.sample")
    run = FinishedRun(id="run", finished_at=0.0, result=made)
    (part,) = suite_parts.parts([run])
    tables = [table for table in tables_of(suite) if table.few_shot == 0]
    assert [figure.title for figure in part.ways[0].figures] == maps
    assert len(part.figures) == published_maps
    assert len(part.figures) + len(part.numbers) == len(tables)
    assert all(len(table.columns) <= suite_parts.MOST_COLUMNS for table in part.numbers)
    assert ("60000" in suite_parts.render([run]).suites[suite][1]) == (suite == "stereoset")
    assert {table.columns[0] for table in part.numbers if table.head == "part"} <= {"TL-1.1B"}


def test_names_are_escaped() -> None:
    """A model may have any name."""
    runs = [finished("crows_pairs", name, [ss("gender", 60.0, 55.0, 65.0)]) for name in ("<script>", "b")]
    out = suite_parts.render(runs)
    assert "<script>" not in out.suites["crows_pairs"][1] + out.ranks


def board_of(values: dict[str, float]) -> list[FinishedRun]:
    """CrowS-Pairs on two axes, with resamples around the values."""
    runs = []
    for number, (model, value) in enumerate(values.items()):
        draws = np.random.default_rng(number).normal(value, 1.0, 200)
        found = [crows(model, value, axis=axis).estimates for axis in ("gender", "age")]
        resamples = [RankResamples(axis=axis, values=[float(one) for one in draws]) for axis in ("gender", "age")]
        runs.append(finished("crows_pairs", model, [e for es in found for e in es], rank_resamples=resamples))
    return runs


def test_positions_have_the_intervals_of_their_ranks() -> None:
    """Two that chance could swap share a position, and a third is apart: rank sums 1, 1 and 3 of one data set each."""
    (board,) = leaderboards([run.result for run in board_of({"a": 90.0, "b": 89.9, "c": 20.0})])
    figure = positioning(board)
    said = parsed(figure.pictures[0].svg).attrib["aria-label"]
    assert "a: gender 0.00 (0.00 to 0.50), rank sum 1" in said
    assert "b: gender 0.00 (0.00 to 0.50), rank sum 1" in said
    assert "c: gender 1.00 (1.00 to 1.00), rank sum 3" in said


@pytest.mark.statistical
def test_summed_intervals_hold_the_rank_sum() -> None:
    """Four models on three data sets, 300 times: at least 95 % of the sums of their true ranks lie within."""
    truth = np.array([0.0, 0.3, 0.6, 0.9])
    rng, held, total = np.random.default_rng(5), 0, 0
    for _ in range(300):
        lower, upper = np.zeros(4), np.zeros(4)
        for _ in range(3):
            values = truth + rng.normal(0.0, 0.3, 4)
            resamples = values[:, None] + rng.normal(0.0, 0.3, (4, 200))
            found = rank_ranges([float(value) for value in values], resamples, best="lowest")
            lower += [one.lower for one in found]
            upper += [one.upper for one in found]
        true = 3 * np.arange(1, 5)
        held += int(((lower <= true) & (true <= upper)).sum())
        total += 4
    assert held / total >= 0.95
