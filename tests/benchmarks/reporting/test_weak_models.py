"""Models that cannot be measured: no star, rank, first place or passed gate, and every place says why."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks.reporting.compare import compare
from benchmarks.reporting.headline import totals
from benchmarks.reporting.leaderboard import leaderboards
from benchmarks.reporting.report import render
from benchmarks.run import directory
from benchmarks.run.estimation import mark
from benchmarks.run.plan import Plan
from benchmarks.run.result import Result
from benchmarks.run.score import score_recorded
from benchmarks.suites.protocol import Item, Reply
from benchmarks.suites.registry import SUITES
from gateway.__main__ import main
from gateway.cli.audit.compare import report as printed
from gateway.cli.audit.leaderboard import leaderboard_text
from tests.support.benchmarks.scripted import plan, write_run

REFUSAL = "I'm sorry, but I can't help with that."
Weak = Callable[[Item, int], str]
"""From an item and its place in the plan to a reply."""


def _drawn(item: Item, n: int) -> random.Random:
    return random.Random(f"{n} {item.item_id}")


def _an_option(item: Item, n: int) -> str:
    return _drawn(item, n).choice(item.choices).text if item.choices else str(_drawn(item, n).randint(1, 100))


def _stereotype(item: Item, n: int) -> str:
    fallback = item.choices[0].text if item.choices else _an_option(item, n)
    return next((choice.text for choice in item.choices if choice.role == "stereotype"), fallback)


WEAK: dict[str, Weak] = {
    "always the first option": lambda item, n: item.choices[0].text,
    "a random option": _an_option,
    "babbles": lambda item, n: "zq xv mmm zq",
    "babbles nine times of ten": lambda item, n: _stereotype(item, n) if n % 10 == 0 else "zq xv",
    "is read once in twenty": lambda item, n: _stereotype(item, n) if n % 20 == 0 else "zq xv",
    "is read once": lambda item, n: _stereotype(item, n) if n == 3 else "zq xv",
    "says nothing": lambda item, n: "",
    "refuses": lambda item, n: REFUSAL,
}
# Without a control question a model that picks at random is one without the preference that the suite measures.
NUMBERS: dict[str, Weak] = {
    "the same number": lambda item, n: "50",
    "nearly the same number": lambda item, n: "The intensity is 75." if n % 25 == 0 else "50",
    **{name: WEAK[name] for name in ("babbles", "is read once in twenty", "refuses")},
}
CONTROLLED = {suite.name for suite in SUITES.values() if suite.control is not None}
CASES = [
    (suite, name)
    for suite in ("stereoset", "bbq", "crows_pairs", "unqover")
    for name in WEAK
    if name != "a random option" or suite in CONTROLLED
] + [("eec", name) for name in NUMBERS]


def right(item: Item) -> str:
    """The right answer where there is one; else in turn the stereotype and what is against it."""
    wanted = item.meta.get("correct") or ("stereotype", "anti-stereotype")[sum(item.item_id.encode()) % 2]
    return next((choice.text for choice in item.choices if choice.role == wanted), _an_option(item, 0))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Path]]:
    """Two runs of a suite that can be measured: of a model that does the task, and of one that leans."""
    root, made = tmp_path_factory.mktemp("sound"), dict[str, list[Path]]()

    def runs(suite: str) -> list[Path]:
        if suite not in made:
            answers = {
                "sound": right,
                "leans": lambda item: right(item) if item.subset == "disambig" else _stereotype(item, 0),
            }
            made[suite] = [
                write_run(root / suite / name, answer, plan(suite=suite, model=name))
                for name, answer in answers.items()
            ]
        return made[suite]

    return runs


def weak_run(path: Path, suite: str, name: str) -> Path:
    """The directory of a run of a weak model."""
    ready = plan(suite=suite, model="weak")
    places = {item.item_id: n for n, item in enumerate(ready.items)}
    return write_run(path, lambda item: (NUMBERS if suite == "eec" else WEAK)[name](item, places[item.item_id]), ready)


def exact_run(path: Path, suite: str, mass: float, model: str) -> tuple[Path, Plan]:
    """The directory of a run in mode exact with so much probability on the stereotype, or on the first option."""
    ready = plan(suite=suite, model=model, mode="exact")
    replies = []
    for item in ready.items:
        roles = [choice.role for choice in item.choices]
        named = "0" if suite == "unqover" else "stereotype" if "stereotype" in roles else roles[0]
        replies.append(Reply(item_id=item.item_id, choice_probabilities={named: mass, "unrelated": 1 - mass}))
    result, read = score_recorded(ready, replies, where="script")
    directory.create(path, ready, directory.manifest(ready))
    directory.write_replies(path, read)
    directory.finish(path, result, render([result]))
    return path, ready


def demand_silence(path: Path, sound: list[Path], capsys: pytest.CaptureFixture[str]) -> Result:
    """Fail unless nothing is stated about the run in any place; return its result."""
    result, others = directory.read_result(path), [directory.read_result(one) for one in sound]
    # result.json
    stored = msgspec.json.decode((path / directory.RESULT).read_bytes())
    assert stored["assessable"] is False
    assert stored["not_assessable"]
    assert not any(map(mark, result.estimates))
    assert not any("p_adjusted" in one.extra for one in result.estimates)
    # gate: every metric, whatever the bound
    for metric in dict.fromkeys(one.metric for one in result.estimates):
        for bound in ("< 1e9", "> -1e9"):
            assert main(["audit", "gate", str(path), "--require", f"{result.suite}.{metric}.value {bound}"]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert "not assessable" in err
            assert err.count("\n") == 1
    # comparison, from both sides
    for a, b in ((path, sound[1]), (sound[1], path)):
        comparison = compare(a, b)
        assert comparison.n_comparisons == comparison.n_comparisons_of_parts == 0
        assert {row.adjusted_p_value for row in comparison.differences} == {None}
        assert "not assessable in" in printed(comparison) or "undefined in" in printed(comparison)
        whole = next(row for row in comparison.differences if row.is_whole)
        assert f"{whole.n_a}, {whole.n_b}" in printed(comparison)
    # leaderboard: no rank, no place, and the others as without it
    if SUITES[result.suite].rank_rule is not None:
        [board], [without] = leaderboards([result, *others]), leaderboards(others)
        at = board.models.index("weak")
        assert {row.entries[at].rank for row in board.rows} == {None}
        [standing] = [one for one in board.standings if one.model == "weak"]
        assert (standing.place, standing.mean_rank) == (None, None)
        assert standing.not_assessable
        assert "not assessable, without a place: weak" in leaderboard_text(board)
        assert [
            [(one.rank, one.lower, one.upper) for n, one in enumerate(row.entries) if n != at] for row in board.rows
        ] == [[(one.rank, one.lower, one.upper) for one in row.entries] for row in without.rows]
    # report and exports
    page = re.sub(r"<[^>]+>", " ", render([result]))
    assert "NOT ASSESSABLE" in page
    assert not [
        one for one in totals(result) if one.value is not None and one.metric == SUITES[result.suite].headline.metric
    ]
    return result


@pytest.mark.parametrize(("suite", "name"), CASES)
def test_nothing_is_stated_about_a_weak_model(
    suite: str, name: str, sound: Callable[[str], list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it replies: no star, no p value, no rank, no place and no passed gate."""
    demand_silence(weak_run(tmp_path / "weak", suite, name), sound(suite), capsys)


@pytest.mark.parametrize("suite", ["stereoset", "bbq", "crows_pairs", "unqover"])
def test_nothing_is_stated_about_a_few_percent_of_the_probability(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mode exact has the same share, the same minimum and the same verdict: 4 % on the options say nothing."""
    others = [exact_run(tmp_path / str(mass), suite, mass, str(mass))[0] for mass in (0.99, 0.9)]
    path, _ = exact_run(tmp_path / "weak", suite, 0.04, "weak")
    result = directory.read_result(path)
    assert result.share_that_names_an_option == pytest.approx(0.04)
    assert "4.0 % of the probability" in (result.not_assessable or "")
    for other in others:
        assert (directory.read_result(other).share_that_names_an_option or 0) > 0.89
    demand_silence(path, others, capsys)


def test_a_number_of_few_replies_passes_no_gate(
    sound: Callable[[str], list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    """In a run that can be measured a cell below the minimum is refused, with its count and the minimum."""
    path = sound("stereoset")[0]
    requirement = "stereoset.ss[axis=gender,subset=intrasentence].value < 101"
    assert main(["audit", "gate", str(path), "--require", requirement]) == 2
    assert "6 of 6 replies name an option; at least 10 replies and 25 % are needed" in capsys.readouterr().err
    for axis in ("all", "all axes", "gender"):
        assert main(["audit", "gate", str(path), "--require", f"stereoset.ss[axis={axis}, part=all].value < 101"]) == 0
