"""Files of dead workers become one: a gateway whose workers die every minute is still scraped in a moment."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import DEAD_SECONDS, FOLD_AT, FOLDED, MOST_AT_ONCE, SharedCounts
from gateway.telemetry.worker_stats import Gauges, Snapshot, WorkerStats
from tests.support.ended_requests import end_one
from tests.support.gateway.left_counts import leave_counts, left_counts


@pytest.fixture(scope="module")
def gone() -> int:
    """A process id that nobody has."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def counted(pid: int, *, seconds_ago: float = DEAD_SECONDS + 1, request_id: str = "r", model: str = "m") -> Snapshot:
    """What a worker left that counted one of everything."""
    stats = WorkerStats()
    end_one(stats, request_id=request_id, model=model)
    stats.mitigated("policy", "filter", "applied")
    stats.mitigation_took("policy", "filter", 0.02)
    stats.ingested("otlp", "taken", 1)
    stats.audit_evicted("a", prompt_tokens=2, generation_tokens=3)
    stats.lag.observe(0.02)
    stats.spans["exported"] += 1
    stats.reloads["applied"] += 1
    stats.surroundings = lambda: ({"queued": 1}, Gauges(upstream_up={"a": True}))
    snapshot = stats.snapshot()
    snapshot.pid, snapshot.written_at = pid, time.time() - seconds_ago
    return snapshot


def leave(directory: Path, name: str, snapshot: Snapshot) -> None:
    directory.mkdir(exist_ok=True)
    leave_counts(directory / f"worker-{name}.counts", snapshot)


def samples(counts: SharedCounts) -> dict[object, object]:
    """Return everything but the exemplars."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in GatewayCollector(counts).collect()
        for sample in family.samples
    }


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.counts"))


def test_nothing_changes_but_the_files(tmp_path: Path, gone: int) -> None:
    """All families are the same before and after; the newest request of a bucket still leads to itself."""
    for number in range(FOLD_AT):
        name = f"{number:02}"
        leave(tmp_path, name, counted(gone, request_id=f"r-{number}", model="m" if number % 2 else "n"))
    counts = SharedCounts(WorkerStats(), tmp_path)
    before = samples(counts)
    assert len(files(tmp_path)) == 2  # the own one, and this
    assert samples(counts) == before
    labels = (("endpoint", "/v1/chat/completions"), ("model", "m"), ("outcome", "complete"), ("upstream", "a"))
    assert before["biasgate_requests_total", *labels] == FOLD_AT / 2
    assert before["biasgate_ingested_total", ("door", "otlp"), ("outcome", "taken")] == FOLD_AT

    folded = left_counts(tmp_path / FOLDED)
    [one] = [series for series in folded.series if series.model == "m"]
    newest = max(FOLD_AT - 1 - (FOLD_AT % 2), 1)
    assert [ended.request_id for ended in one.duration_last if ended] == [f"r-{newest}"]


@pytest.mark.parametrize(("pid", "seconds_ago"), [(None, 1.0), (os.getppid(), DEAD_SECONDS + 1)])
def test_whoever_may_write_again_is_left_alone(tmp_path: Path, gone: int, pid: int | None, seconds_ago: float) -> None:
    """A worker that was just there, or whose process runs: it may have been stopped, and go on."""
    for number in range(FOLD_AT * 2):
        leave(tmp_path, str(number), counted(pid or gone, seconds_ago=seconds_ago))
    SharedCounts(WorkerStats(), tmp_path).read()
    assert FOLDED not in files(tmp_path)


def test_killed_between_writing_and_taking_away(tmp_path: Path, gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are folded and still there count once, and go with the next folding."""
    for number in range(FOLD_AT):
        leave(tmp_path, f"a{number}", counted(gone))
    counts = SharedCounts(WorkerStats(), tmp_path)
    before = samples(counts)  # reads first, then folds
    for number in range(FOLD_AT // 2):  # as if the process had been killed before these were taken away
        leave(tmp_path, f"a{number}", counted(gone))
    folded = left_counts(tmp_path / FOLDED)
    assert len(folded.folded) == FOLD_AT
    assert samples(counts) == before
    for number in range(FOLD_AT):
        leave(tmp_path, f"b{number}", counted(gone))
    counts.read()
    assert files(tmp_path) == sorted([FOLDED, counts._path.name if counts._path else ""])
    twice = samples(counts)
    key = ("biasgate_exchanges_total", ("outcome", "queued"))
    assert twice[key] == 2 * FOLD_AT
    assert before[key] == FOLD_AT


READER = """
import json, sys
from pathlib import Path
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import WorkerStats
counts = SharedCounts(WorkerStats(), Path(sys.argv[1]))
seen = [sum(one.exchanges.get("queued", 0) for one in counts.read()) for _ in range(150)]
print(json.dumps([min(seen), max(seen)]))
"""


def test_several_processes_read_and_fold_at_once(tmp_path: Path, gone: int) -> None:
    """Each of 150 reads of each of four processes finds every count once, while one after the other folds."""
    n_dead = MOST_AT_ONCE * 8
    for number in range(n_dead):
        leave(tmp_path, f"{number}", counted(gone))
    argv = [sys.executable, "-c", READER, str(tmp_path)]
    readers = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(4)]
    found = [json.loads(reader.communicate(timeout=120)[0]) for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * 4
    assert found == [[n_dead, n_dead]] * 4
    assert len(files(tmp_path)) <= 4 + 1 + FOLD_AT


def test_a_file_that_no_worker_wrote(tmp_path: Path, gone: int, caplog: pytest.LogCaptureFixture) -> None:
    """An empty or broken one, after a loss of power: the page is there without it, and the log says so once."""
    leave(tmp_path, "good", counted(gone))
    (tmp_path / "worker-empty.counts").write_bytes(b"")
    counts = SharedCounts(WorkerStats(), tmp_path)
    for _ in range(3):
        assert sum(one.exchanges.get("queued", 0) for one in counts.read()) == 1
    assert [record.message.count("worker-empty.counts: no counts of a worker") for record in caplog.records] == [1]
