"""What a dead worker leaves behind: settled once, whatever of it had arrived before or arrives afterwards."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.jobs import open_queue
from gateway.sampling.writer.direct import DirectSink
from gateway.sampling.writer.journal import Journal, Leftover, settle_orphans
from gateway.store import ledger
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from tests.support.store.made import exchange

pytestmark = pytest.mark.stores("sqlite")

IN_FLIGHT = [("other", "sampled_out", 3), ("other", "failed", 2)]
WAITING = [("other", "sampled_out", 5), ("vip", "failed", 1)]


def dead(directory: Path, *entries: Leftover, counted: Sequence[tuple[str, str]] = ()) -> None:
    """A worker that wrote these, counted those, and died."""
    journal = Journal(directory, entries[-1].sender if entries else "nobody")
    for entry in entries:
        journal.write(entry)
    assert all(journal.count(pair) for pair in counted)
    journal.close(is_settled=False)


def left(number: int = 1, sender: str = "s") -> Leftover:
    return Leftover(sender, number, IN_FLIGHT, WAITING)


def journals(directory: Path) -> list[Path]:
    return list(directory.glob("*.journal"))


@pytest.fixture
def sink(database: Database) -> DirectSink:
    return DirectSink(database, open_queue(database))


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_dead_workers_counts_reach_the_ledger_once(
    tmp_path: Path, database: Database, sink: DirectSink
) -> None:
    """What was in flight and what waited is added, copies as failed; then the journal goes. Again, nothing changes."""
    dead(tmp_path, left())
    assert await settle_orphans(tmp_path, sink) == 0
    expected = {("other", "sampled_out"): 8, ("other", "failed"): 2, ("vip", "failed"): 1}
    assert await ledger.counts(database) == expected
    assert not journals(tmp_path)
    dead(tmp_path, left())  # as if the writer had died after its commit
    assert await settle_orphans(tmp_path, sink) == 0
    assert await ledger.counts(database) == expected


async def test_what_had_arrived_is_not_added_again(tmp_path: Path, database: Database, sink: DirectSink) -> None:
    """The delivery in flight was stored after all: only what waited behind it is missing."""
    stored = {("other", "sampled_out"): 3, ("other", "queued"): 2}
    await sink.write([exchange(), exchange()], stored, Delivery("s", 1, 1.0))
    dead(tmp_path, left())
    await settle_orphans(tmp_path, sink)
    assert await ledger.counts(database) == stored | {("other", "sampled_out"): 8, ("vip", "failed"): 1}


async def test_what_arrives_late_is_not_added_again(tmp_path: Path, database: Database, sink: DirectSink) -> None:
    """A batch that the writer still had in its socket changes nothing once its worker's journal is settled."""
    dead(tmp_path, left())
    await settle_orphans(tmp_path, sink)
    before = await ledger.counts(database)
    for number in (1, 2):
        await sink.write([exchange()], {("other", "queued"): 1}, Delivery("s", number, 1e12))
    assert await ledger.counts(database) == before


async def test_a_living_workers_journal_is_left_alone(tmp_path: Path, database: Database, sink: DirectSink) -> None:
    """Only the dead are settled."""
    journal = Journal(tmp_path, "s")
    journal.write(left())
    assert await settle_orphans(tmp_path, sink) == 1
    assert await ledger.counts(database) == {}
    journal.close(is_settled=True)
    assert not journals(tmp_path)


@pytest.mark.parametrize("torn_bytes", [0, 3, 20, 30])
async def test_a_worker_that_dies_while_it_writes_leaves_its_last_entry(
    tmp_path: Path, database: Database, sink: DirectSink, torn_bytes: int
) -> None:
    """Half an entry is none: the one before it counts."""
    journal = Journal(tmp_path, "s")
    journal.write(Leftover("s", 0, [], [("other", "sampled_out", 1)]))
    journal.write(Leftover("s", 0, [], [("other", "sampled_out", 2)]))
    journal.close(is_settled=False)
    [path] = journals(tmp_path)
    content = bytearray(path.read_bytes())
    end = content.index(b"sampled_out\x02") + len(b"sampled_out\x02")
    content[end - torn_bytes - 1 : end] = random.Random(1).randbytes(torn_bytes + 1)
    path.write_bytes(content)
    await settle_orphans(tmp_path, sink)
    assert await ledger.counts(database) == {("other", "sampled_out"): 1}


async def test_what_is_counted_after_an_entry_is_of_the_next_delivery(
    tmp_path: Path, database: Database, sink: DirectSink
) -> None:
    """Each count is in the file at once; a pair of which there was none yet has to be written first."""
    dead(tmp_path, left(), counted=[("other", "sampled_out")] * 3 + [("vip", "failed")])
    await sink.write([], {("other", "sampled_out"): 3}, Delivery("s", 1, 1.0))
    await settle_orphans(tmp_path, sink)
    expected = {("other", "sampled_out"): 3 + 5 + 3, ("vip", "failed"): 2}
    assert await ledger.counts(database) == expected
    journal = Journal(tmp_path, "t")
    assert not journal.count(("vip", "truncated"))
    journal.close(is_settled=True)


async def test_what_is_too_old_is_given_up(
    tmp_path: Path, database: Database, sink: DirectSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which deliveries arrived is known for a day only: after that a count could be added twice."""
    monkeypatch.setattr("time.time", lambda: 1e9)
    dead(tmp_path, left())
    monkeypatch.undo()
    await settle_orphans(tmp_path, sink)
    assert await ledger.counts(database) == {}
    assert not journals(tmp_path)


async def test_more_strata_than_fit_are_counted_together(tmp_path: Path, database: Database, sink: DirectSink) -> None:
    """No count is lost for having too long a name."""
    many = [(f"model:{number:050}", "sampled_out", 2) for number in range(2000)]
    dead(tmp_path, Leftover("s", 0, [], many), counted=[(stratum, outcome) for stratum, outcome, _ in many])
    await settle_orphans(tmp_path, sink)
    assert await ledger.counts(database) == {("unclassified", "sampled_out"): 6000}
