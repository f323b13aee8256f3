"""Replies that are found again in their log: by key, by item, in the order of the plan, and what is missing."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.run.log import BLOCK_BYTES, LINE_BYTES, SAMPLES_AT_ONCE, Replies, ReplyLines
from benchmarks.suites.protocol import Item, Reply

ITEMS = [Item(item_id=name, messages=(), axis=name, groups=(), cluster="c") for name in ("b", "a", "c")]


def reply(item_id: str, sample: int = 0, text: str = "t", status: str = "ok") -> Reply:
    return Reply(item_id=item_id, sample=sample, text=text, status=status)  # type: ignore[arg-type]  # literals here


def replies(*kept: Reply, samples: int = 3) -> Replies:
    found = Replies(ITEMS, samples, kept.__getitem__)
    for place, one in enumerate(kept):
        found.put(one, place)
    return found


def test_a_later_reply_replaces_an_earlier_one() -> None:
    """The newest counts, an error too; what is of no item or sample of the plan is left alone."""
    found = replies(
        reply("a"), reply("x"), reply("a", 3), reply("a", text="new"), reply("b", 2), reply("b", 2, "", "error")
    )

    assert found["a", 0].text == "new"
    assert found["b", 2].status == "error"
    assert (len(found), found.n_answered) == (2, 1)
    assert not {("x", 0), ("a", 3), ("c", 0)} & set(found)
    assert ("a", 3) not in found


def test_replies_are_in_the_order_of_the_plan() -> None:
    """By item and then by sample, whatever order they came in."""
    found = replies(reply("c", 1), reply("a", 2), reply("a", 0), reply("b", 1))

    assert list(found) == [("b", 1), ("a", 0), ("a", 2), ("c", 1)]
    assert [one.sample for one in found.to(ITEMS[1])] == [0, 2]
    assert [found.n_to(item) for item in ITEMS] == [1, 2, 1]


def test_what_is_missing_is_told_with_what_failed() -> None:
    """Every key without an answer, once, with the reply that failed where there is one."""
    found = replies(reply("b", 0), reply("b", 1, "kept text", "error"), *(reply("a", sample) for sample in range(3)))
    missing = [(item.item_id, sample, one and one.text) for item, sample, one in found.missing()]

    assert missing == [("b", 1, "kept text"), ("b", 2, None), ("c", 0, None), ("c", 1, None), ("c", 2, None)]


def test_many_samples_are_looked_up_in_parts() -> None:
    """More samples than are looked up at once are all there, across the seam."""
    samples = 2 * SAMPLES_AT_ONCE + 5
    kept = [reply("a", sample) for sample in range(samples) if sample != SAMPLES_AT_ONCE]
    found = replies(*kept, samples=samples)

    assert [one.sample for one in found.to(ITEMS[1])] == [one.sample for one in kept]
    assert [sample for item, sample, _ in found.missing() if item.item_id == "a"] == [SAMPLES_AT_ONCE]


def test_lines_of_any_length_are_found_again(tmp_path: Path) -> None:
    """Places lead to the lines, longer than a read or a block too; what follows the last newline is no reply."""
    kept = [reply("a", n, "é" * size) for n, size in enumerate((1, LINE_BYTES, 9 * LINE_BYTES, 2 * BLOCK_BYTES, 3))]
    with (tmp_path / "lines").open("a+b") as file:
        lines = ReplyLines(file, "lines")
        places = lines.append([msgspec.json.encode(one) for one in kept[:3]])
        places += lines.append([msgspec.json.encode(one) for one in kept[3:]])
    with (tmp_path / "lines").open("ab") as torn:
        torn.write(b'{"item_id": "a", "sam')
    with (tmp_path / "lines").open("rb") as file:
        again = ReplyLines(file, "lines")

    assert [lines.reply(place) for place in places] == kept
    assert [pair for batch in again.batches() for pair in batch] == list(zip(places, kept, strict=True))


def test_a_file_that_was_shortened_is_an_error(tmp_path: Path) -> None:
    """A place behind the end is one line that says what to do, not a wait without end."""
    with (tmp_path / "lines").open("a+b") as file:
        [place] = (lines := ReplyLines(file, "lines")).append([msgspec.json.encode(reply("a"))])
        file.truncate(5)

    with pytest.raises(BenchmarkError, match="lines: was shortened"):
        lines.reply(place)
