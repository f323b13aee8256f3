"""A real model is asked again what it was asked, and its replies are read by the labels of the recorded ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.suites.protocol import Item
from benchmarks.suites.registry import SUITES
from tests.support.models import serving
from tests.support.real_replies import FAMILIES, Labelled, Read, items_of, labelled_replies, read

MODEL = "qwen2.5-coder-0.5b-instruct"
N_ASKED = 24
"""Replies of a family."""
LEAST_SAME = 1 / 3
"""Least share that comes back in the recorded words: a suite with a temperature has other replies each time."""
LEAST_RIGHT = 0.95


@pytest.fixture(scope="module")
def url(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of the larger model."""
    with serving(models[MODEL], tmp_path_factory.mktemp("qwen") / "log") as url:
        yield url


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_of_today_are_read_as_labelled(url: str, family: str) -> None:
    """The replies that come back as recorded are read as labelled, and enough of them do."""
    known = {(*place_of(labelled), labelled.reply): labelled for labelled in labelled_replies(family)}
    recorded = [labelled for labelled in known.values() if labelled.model == MODEL]
    asked = recorded[:: max(1, len(recorded) // N_ASKED)][:N_ASKED]
    items = {suite: items_of(suite) for suite in {labelled.suite for labelled in asked}}
    same = []
    for labelled in asked:
        item = items[labelled.suite][labelled.item_id]
        text = ask(url, labelled.suite, item)
        if (same_words := known.get((*place_of(labelled), text))) is not None:
            same.append(Read(same_words, read(labelled, item, text)))
    right = sum(result.is_right for result in same)
    sys.stdout.write(f"{family}: {len(asked)} asked, {len(same)} in the recorded words, {right} of them read right\n")
    assert len(same) >= LEAST_SAME * len(asked)
    assert right >= LEAST_RIGHT * len(same)


def place_of(labelled: Labelled) -> tuple[str, str | None]:
    """Return where a reply's words mean its label: at its item if it chooses an option, else anywhere in the suite."""
    return labelled.suite, labelled.item_id if labelled.options else None


def ask(url: str, suite: str, item: Item) -> str:
    """Return the most probable reply to an item."""
    limit = (item.sampling or SUITES[suite].sampling("corrected")).max_tokens
    messages = [{"role": message.role, "content": message.content} for message in item.messages]
    body = {"model": MODEL, "messages": messages, "max_tokens": limit, "temperature": 0}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).raise_for_status().json()
    return str(answer["choices"][0]["message"]["content"])
