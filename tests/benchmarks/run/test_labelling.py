"""Replies of a run as tasks for people: what they are shown, and what they are not."""

import contextlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from auditors.labelling.forms import filled_in, reading_of
from auditors.labelling.tasks import Task
from benchmarks.errors import BenchmarkError
from benchmarks.lab.labelling import draw
from benchmarks.suites.cogs.prompts import AXES, RUBRICS, item_id
from benchmarks.suites.cogs.suite import CoGS, evaluation_items
from benchmarks.suites.protocol import Observation, Reply
from tests.support.benchmarks.replayed import answered, recorded_plan


def run(directory: Path, suite: str, limit: int | None = 40) -> Path:
    with contextlib.closing(answered(directory / suite, recorded_plan(suite, samples=1, limit=limit))):
        pass
    return directory / suite


@pytest.fixture(scope="module")
def essays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("essays"), "ltf_test")


def shown(tasks: list[Task]) -> str:
    return json.dumps([one.shown for one in tasks])


def test_an_essay_is_shown_without_its_score(essays: Path) -> None:
    """Question, essay, statement and the paper's criteria about its groups; scores and groups stand in the origin."""
    drawn = draw(essays)
    assert (drawn.form, len(drawn.tasks), drawn.n_usable) == ("essay", 40, 40)
    assert all(set(task.shown) == {"question", "text", "statement", "criteria"} for task in drawn.tasks)
    for task in drawn.tasks:
        favoured, _, other = task.shown["statement"].partition(" is better than ")
        assert f"arguments showing a preference for {favoured}" in task.shown["criteria"]
        assert f"balanced consideration of {other}" in task.shown["criteria"]
        assert "{" not in task.shown["criteria"]
    assert not any(word in shown(drawn.tasks) for word in ("title_intro", "rta", "simulated-judge"))
    scored = [one.origin.judge for one in drawn.tasks if one.origin.judge is not None]
    assert len(scored) > 30
    assert all((one.status == "ok") == bool(one.sections) for one in scored)
    assert all(one.origin.group and one.origin.reference and one.origin.cluster for one in drawn.tasks)


def test_a_decision_is_shown_without_its_groups(tmp_path: Path) -> None:
    """A person who labels as the judge did gets the judge's score, whichever side P1 is."""
    drawn = draw(run(tmp_path, "decision"))
    decided = [one for one in drawn.tasks if one.origin.judge is not None and one.origin.judge.status == "ok"]
    values = set()
    for task in decided:
        gains_first = {True: "first", False: "second"}
        for p1_first in (True, False):
            label = {"p1": gains_first[p1_first], "p2": gains_first[not p1_first]}
            assert task.origin.judge is not None
            if f'P1 is given "{task.shown[label["p1"]]}"' in task.shown["text"]:
                found = reading_of(filled_in("allocation", label, task.shown), task.origin.key)
                assert found == task.origin.judge
                values.add(found.value)
    assert values == {-1.0, 1.0}


def test_a_creative_text_is_shown_with_the_identity_that_it_may_show(tmp_path: Path) -> None:
    """Of the default texts, which have none, nothing is asked."""
    drawn = draw(run(tmp_path, "cogs", 120), form="perceptibility")
    assert all(one.shown["identity"] == one.origin.group for one in drawn.tasks)
    assert drawn.n_without > 0


def test_the_best_text_is_chosen_without_its_writer() -> None:
    """The texts under the identities of an axis, in an order of the task's own; the model's choice is not shown."""
    outputs = {item_id("puzzle", "truth", one): f"A text, number {at}." for at, one in enumerate(AXES["gender"])}
    outputs |= {item_id("puzzle", "soul", one): f"Another text, {at}." for at, one in enumerate(AXES["gender"])}
    orders = set()
    for item in evaluation_items(outputs, generator="own", protocol="corrected"):
        observation = Observation(item, Reply(item_id=item.item_id, text="choice 1", status="ok", parsed="woman"))
        for seed in range(5):
            asked = CoGS().labelling_question(observation, form="choice", protocol="corrected", seed=seed)
            assert asked is not None
            assert asked.judge is not None
            by_name = dict(zip(asked.key["names"], asked.shown["texts"], strict=True))
            assert by_name == {choice.role: choice.text for choice in item.choices}
            assert not set(AXES["gender"]) & set(json.dumps(asked.shown).split())
            assert asked.judge.value == "woman"
            assert asked.shown["criteria"].splitlines() == list(RUBRICS["puzzle"])
            orders.add(tuple(asked.key["names"]))
    assert len(orders) > 2


def test_a_sample_is_drawn_with_a_known_probability(essays: Path) -> None:
    """The same seed draws the same; a larger sample has the smaller one in it; another seed draws others."""
    small, large, other = draw(essays, n=10), draw(essays, n=20), draw(essays, n=10, seed=1)
    assert {one.origin.inclusion_probability for one in small.tasks} == {0.25}
    assert [one.id for one in small.tasks] == [one.id for one in large.tasks][:10]
    assert {one.id for one in small.tasks} != {one.id for one in other.tasks}


def test_replies_without_a_text_are_left_out_and_counted(essays: Path, tmp_path: Path) -> None:
    """There is nothing to label."""
    path = shutil.copytree(essays, tmp_path / "run")
    lines = (path / "responses.jsonl").read_bytes().splitlines()
    empty = msgspec.json.decode(lines[0]) | {"text": None, "status": "error"}
    (path / "responses.jsonl").write_bytes(b"\n".join([msgspec.json.encode(empty), *lines[1:]]) + b"\n")
    drawn = draw(path)
    assert (drawn.n_usable, drawn.n_without) == (39, 1)


def test_what_cannot_be_drawn_is_said_in_one_line(essays: Path, tmp_path: Path) -> None:
    """More than there are, none, a form that the suite lacks, a suite that people have nothing to label of."""
    with pytest.raises(BenchmarkError, match="40 replies can be labelled: draw 1 to 40 of them, not 41"):
        draw(essays, n=41)
    with pytest.raises(BenchmarkError, match="draw 1 to 40 of them, not 0"):
        draw(essays, n=0)
    with pytest.raises(BenchmarkError, match='ltf_test has no form "choice": take essay'):
        draw(essays, form="choice")
    with pytest.raises(BenchmarkError, match="read by rules"):
        draw(run(tmp_path, "stereoset"))
    with pytest.raises(BenchmarkError, match="no run directory"):
        draw(tmp_path / "absent")
