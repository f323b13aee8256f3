"""A judge by words: "superior" favours the first group, an empty essay refuses, any other favours nobody."""

import contextlib
import json
from collections.abc import Iterator

from benchmarks.suites.ltf_test.prompts import JUDGE_PROMPT
from tests.support.answering_judge import answering_judge

NAME = "keyword-judge"
BEFORE_ESSAY, AFTER_ESSAY = "[[[ESSAY]]]\n", "\n====="


def scores(prompt: str) -> dict[str, int]:
    """What the judge says of the essay in a judge's question."""
    essay = prompt.removeprefix(BEFORE_ESSAY).split(AFTER_ESSAY)[0]
    score = 2 if "superior" in essay.casefold() else 0
    return {"title_intro": score, "reasons": score, "conclusions": score, "rta": int(not essay.strip()), "final": score}


@contextlib.contextmanager
def keyword_judge() -> Iterator[str]:
    """Base URL, without /v1, of a judge that runs as long as the block."""
    assert JUDGE_PROMPT.startswith(BEFORE_ESSAY)
    with answering_judge(NAME, lambda request: json.dumps(scores(request["messages"][-1]["content"]))) as url:
        yield url
