"""result.json: what can move a number is in it, and files of older versions are still read."""

import msgspec

from benchmarks.run.plan import RunOptions
from benchmarks.run.result import Result, decode, encode
from tests.support.benchmarks.scripted import score_answers


def scored(**options: object) -> Result:
    return score_answers(lambda _: "he", suite="winobias", **options)


IN_PROVENANCE = {
    "judge_model": "its stamp says who judged what",
    "embedder": "by its own name",
    "evaluate": "the generators' names are in the item ids and in extra.by_generator",
    "prompts": "their digest is the data set's",
    "mitigation_text": "its hash is in the mitigation's name",
}


def test_every_option_that_moves_a_number_is_in_the_result() -> None:
    """Whatever a run can be asked is in its result under the same name, except what moves no number."""
    options = {"few_shot": 2, "seed": 3, "limit": 12, "samples": 1, "protocol": "paper"}
    written = msgspec.json.decode(encode(scored(**options)))

    assert {name: written[name] for name in options} == options
    kept_elsewhere = {"data": written["dataset"]["kind"], **IN_PROVENANCE}
    assert set(RunOptions.__struct_fields__) - written.keys() - kept_elsewhere.keys() == {
        "concurrency",
        "keep_reasoning",
        "repeat_share",
    }


def test_old_files_are_read() -> None:
    """A result from before `few_shot` was written had no examples."""
    written = msgspec.json.decode(encode(scored()))
    del written["few_shot"]

    assert decode(msgspec.json.encode(written)).few_shot == 0
    assert decode(encode(scored())) == scored()
