"""The training set of a distilled judge: what is in it, on which side, and what is refused."""

import json
from pathlib import Path

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.lab.distillation import data
from benchmarks.lab.distillation.data import JudgedEssay, example, question, written, written_as_json
from benchmarks.suites.ltf_test.judge import Judgement, parse_judgement
from tests.support.training.runs import judged_run

SHARE = data.Split("0.3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return judged_run(tmp_path_factory.mktemp("runs") / "one", 40)


def rewritten(source: Path, target: Path, change: dict[str, object]) -> Path:
    """A copy of a run in which the judge's record of every reply has these fields instead."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    replies = [json.loads(line) for line in (source / "responses.jsonl").read_text().splitlines()]
    lines = [json.dumps(one | {"judge": one["judge"] | change}) for one in replies]
    (target / "responses.jsonl").write_text("\n".join(lines) + "\n")
    return target


def test_both_directions_of_a_question_are_on_one_side(run: Path, tmp_path: Path) -> None:
    """A share holds out question pairs, not essays; everything judged is on one side or the other."""
    card = data.build([run], tmp_path / "data", SHARE, None)
    sides = [data.read(tmp_path / "data", part)[1] for part in (data.TRAIN, data.HELD_OUT)]
    pairs = [{one.pair for one in side} for side in sides]
    assert not pairs[0] & pairs[1]
    assert [len(side) for side in sides] == [2 * len(side) for side in pairs] == [card.n_train, card.n_held_out]
    assert card.n_train + card.n_held_out == 80


def test_several_models_answers_to_a_question_stay_together(run: Path, tmp_path: Path) -> None:
    """Runs of two models on the same questions: a pair that is held out of one is held out of both."""
    other = judged_run(tmp_path / "other", 40, seed=1)
    card = data.build([run, other], tmp_path / "data", SHARE, None)
    assert (card.n_train + card.n_held_out, card.n_pairs_train + card.n_pairs_held_out) == (160, 40)
    assert len(card.runs) == 2


def test_the_papers_split_is_the_suites_part_eval(run: Path, tmp_path: Path) -> None:
    """`eval` holds out the items of that subset and no others."""
    subset = {}
    for line in (run / "items.jsonl").read_text().splitlines():
        item = json.loads(line)
        subset[item["cluster"]] = item.get("subset")
    data.build([run], tmp_path / "data", data.Split(data.EVAL), None)
    for part, expected in ((data.TRAIN, None), (data.HELD_OUT, "eval")):
        assert {subset[one.pair] for one in data.read(tmp_path / "data", part)[1]} == {expected}


def test_an_essay_whose_text_is_held_out_is_not_trained_on(run: Path, tmp_path: Path) -> None:
    """Stock texts on both sides are taken from the training side and counted, whatever their case and blanks."""
    replies = [json.loads(line) for line in (run / "responses.jsonl").read_text().splitlines()]
    same = rewritten(run, tmp_path / "same", {})
    lines = [
        json.dumps(one | {"text": "One  Stock text." if n % 2 else "one stock TEXT."}) for n, one in enumerate(replies)
    ]
    (same / "responses.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(BenchmarkError, match="no judged essay for training"):
        data.build([same], tmp_path / "none", SHARE, None)
    card = data.build([run, same], tmp_path / "data", SHARE, None)
    assert card.same_text_removed == 80 - sum(
        1 for one in data.read(tmp_path / "data", data.HELD_OUT)[1] if one.essay_id[0] == "1"
    )


def test_a_leak_is_refused(run: Path, tmp_path: Path) -> None:
    """The check finds a pair on both sides, and a text on both sides under other pairs."""
    data.build([run], tmp_path / "data", SHARE, None)
    train = data.read(tmp_path / "data", data.TRAIN)[1]
    held_out = data.read(tmp_path / "data", data.HELD_OUT)[1]
    data.demand_no_leak(train, held_out)
    with pytest.raises(BenchmarkError, match="1 question pairs and 0 texts"):
        data.demand_no_leak(train, [*held_out, msgspec.structs.replace(train[0], essay="another")])
    with pytest.raises(BenchmarkError, match="0 question pairs and 1 texts"):
        data.demand_no_leak(train, [*held_out, msgspec.structs.replace(train[0], pair="another")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "another"}, "another judge: a judge is distilled from one"),
        ({"prompt_sha256": "0" * 64}, "another question to the judge"),
    ],
)
def test_judgements_of_several_judges_are_refused(
    run: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """A judge or question that differs between runs is named with both runs."""
    with pytest.raises(BenchmarkError, match=message):
        data.build([run, rewritten(run, tmp_path / "other", change)], tmp_path / "data", SHARE, None)
    assert not (tmp_path / "data").exists()


def test_what_the_judge_could_not_say_is_left_out_and_counted(run: Path, tmp_path: Path) -> None:
    """A judgement without scores is no example."""
    broken = rewritten(run, tmp_path / "broken", {"text": "I cannot say."})
    card = data.build([run, broken], tmp_path / "data", SHARE, None)
    assert card.left_out == {"judge failed": 80}
    assert card.n_train + card.n_held_out == 80


def test_a_changed_file_is_refused(run: Path, tmp_path: Path) -> None:
    """The card's hash is of the content."""
    data.build([run], tmp_path / "data", SHARE, None)
    path = tmp_path / "data" / data.TRAIN
    path.write_text(path.read_text().replace("superior", "inferior"))
    with pytest.raises(BenchmarkError, match=r"train\.jsonl: was changed"):
        data.read(tmp_path / "data", data.TRAIN)


def judged(**scores: int) -> JudgedEssay:
    values = {"title_intro": 0, "reasons": 0, "conclusions": 0, "rta": False, "final": 0} | scores
    found = Judgement(**{**values, "rta": bool(values["rta"])})  # type: ignore[arg-type]
    return JudgedEssay(
        essay_id="0/a/0", pair="1", axis="gender", direction=("man", "woman"), group1="men", group2="women",
        essay="An essay.", judgement=found,
    )  # fmt: skip


@pytest.mark.parametrize(
    "scores",
    [
        {"title_intro": 2, "reasons": 1, "conclusions": 2, "final": 2},
        {"rta": 1},
        {"final": -1},
        {"title_intro": -1, "reasons": -1, "conclusions": -1, "final": -1},
    ],
)
def test_an_answer_says_what_the_judge_said(scores: dict[str, int]) -> None:
    """Both forms are read again as the same final score and refusal, under every protocol."""
    found = judged(**scores).judgement
    texts = [
        (written(found, "corrected"), "corrected"),
        (written_as_json(found), "corrected"),
        (written(found, "paper"), "paper"),
    ]
    for text, protocol in texts:
        again = parse_judgement(text, protocol=protocol)  # type: ignore[arg-type]
        assert (again.final, again.rta) == (found.final, found.rta)


def test_the_prompt_is_the_suites_own_question() -> None:
    """In the form asked for; a protocol without a schema has none to learn."""
    one = judged()
    asked = question(one, "corrected")
    assert example(one, "corrected", "text").prompt == tuple(asked.messages)
    assert example(one, "corrected", "schema").prompt == tuple(asked.schema_messages or ())
    assert "men" in example(one, "paper", "text").prompt[0].content
    with pytest.raises(BenchmarkError, match="use --form text"):
        example(one, "paper", "schema")
