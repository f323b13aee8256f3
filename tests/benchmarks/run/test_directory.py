"""The run directory: identity, torn lines, and scoring from what is in it."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.reporting import report
from benchmarks.run import directory, score
from benchmarks.run.result import Result, encode
from benchmarks.run.runner import Plan, run_plan
from benchmarks.run.score import score_recorded
from benchmarks.suites.protocol import Reply
from tests.support.benchmarks.scripted import ScriptedCompleter, pick, plan


async def finished(path: Path, ready: Plan, role: str = "stereotype") -> Path:
    """A directory of a complete run."""
    directory.create(path, ready, directory.manifest(ready))
    log = directory.DirectoryLog(path)
    try:
        result = await run_plan(ready, completer=ScriptedCompleter(ready, pick(role)), log=log)
    finally:
        log.close()
    directory.finish(path, result, report.render([result]))
    return path


async def test_a_finished_directory_has_the_files_of_the_contract(tmp_path: Path) -> None:
    """result.json, items.jsonl, responses.jsonl and report.html, with the contract's keys."""
    path = await finished(tmp_path / "run", plan())

    names = sorted(file.name for file in path.iterdir())
    assert names == ["items.jsonl", "report.html", "responses.jsonl", "result.json", "run.json", "session.json"]
    item = msgspec.json.decode((path / "items.jsonl").read_bytes().splitlines()[0])
    assert item.keys() >= {"item_id", "messages", "sha256", "groups", "axis"}
    reply = msgspec.json.decode((path / "responses.jsonl").read_bytes().splitlines()[0])
    assert reply.keys() >= {"item_id", "sample", "text", "status", "parsed", "choice_probabilities"}
    assert reply.keys() >= {"judge", "finish_reason", "usage", "fingerprint"}
    result = msgspec.json.decode((path / "result.json").read_bytes())
    assert result.keys() >= {"schema", "suite", "suite_version", "protocol", "mode", "model", "mitigation", "seed"}
    assert result.keys() >= {"dataset", "counts", "estimates", "provenance"}
    assert result["dataset"].keys() == {"name", "kind", "sha256", "n_canonical", "n_used", "left_out"}
    assert result["provenance"].keys() >= {"biasgate", "base_url_host", "fingerprints", "embedder", "judge"}
    assert all((entry["value"] is None) <= bool(entry["reason"]) for entry in result["estimates"])


async def test_a_torn_last_line_is_cut_and_asked_again(tmp_path: Path) -> None:
    """After kill -9 in the middle of a write, resume loses at most that one reply."""
    ready, path = plan(), tmp_path / "run"
    await finished(path, ready)
    content = (path / "responses.jsonl").read_bytes()
    lines = content.splitlines(keepends=True)
    (path / "responses.jsonl").write_bytes(b"".join(lines[:20]) + lines[20][:25])

    log = directory.DirectoryLog(path)
    completer = ScriptedCompleter(ready, pick("stereotype"))
    result = await run_plan(ready, completer=completer, log=log)
    log.close()

    assert len(completer.asked) == 28
    assert result.counts["ok"] == 48
    assert len((path / "responses.jsonl").read_bytes().splitlines()) == 48


@pytest.mark.parametrize("n_lost", [0, 20])
async def test_resumed_run_tells_the_same_as_one_in_one_piece(n_lost: int, tmp_path: Path) -> None:
    """A run killed before its result, with all replies or without some, differs in nothing but times."""
    ready = plan()
    whole = directory.read_result(await finished(tmp_path / "whole", ready))
    path = await finished(tmp_path / "killed", ready)
    (path / "result.json").unlink()
    lines = (path / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (path / "responses.jsonl").write_bytes(b"".join(lines[: len(lines) - n_lost]) + b'{"item')
    _move_back(path, began=3600.0, last_reply=3536.0)

    log = directory.DirectoryLog(path)
    resumed = await run_plan(ready, completer=ScriptedCompleter(ready, pick("stereotype")), log=log)
    log.close()

    assert 64.0 <= resumed.provenance.seconds < 64.0 + 60.0
    assert resumed.provenance.thinking is not None
    assert encode(_timeless(resumed)) == encode(_timeless(whole))


def _move_back(path: Path, *, began: float, last_reply: float) -> None:
    """Lets the run of a directory have begun, and have had its last reply, so many seconds ago."""
    now, file = time.time(), path / "session.json"
    session = msgspec.json.decode(file.read_bytes(), type=directory.Session)
    beginning = msgspec.structs.replace(session.beginning, started_at=now - began)
    file.write_bytes(msgspec.json.encode(directory.Session(beginning=beginning, began_at=now - began)))
    os.utime(path / "responses.jsonl", (now, now - last_reply))


def _timeless(result: Result) -> Result:
    provenance = msgspec.structs.replace(result.provenance, started=None, finished=None, seconds=0.0)
    return msgspec.structs.replace(result, provenance=provenance)


async def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    """Damage that no crash explains is an error with file and line, never skipped."""
    path = await finished(tmp_path / "run", plan())
    lines = (path / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (path / "responses.jsonl").write_bytes(b"".join([*lines[:3], b'{"item_id": 4}\n', *lines[4:]]))

    log = directory.DirectoryLog(path)
    with pytest.raises(BenchmarkError, match=r"responses\.jsonl, line 4: "):
        [batch async for batch in log.read()]
    log.close()


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    """The second writer is refused while the first holds the directory."""
    ready = plan()
    directory.create(tmp_path / "run", ready, directory.manifest(ready))
    first = directory.DirectoryLog(tmp_path / "run")

    with pytest.raises(BenchmarkError, match="another run is writing there"):
        directory.DirectoryLog(tmp_path / "run")
    first.close()
    directory.DirectoryLog(tmp_path / "run").close()


def test_a_directory_in_use_is_not_overwritten(tmp_path: Path) -> None:
    """A new run never writes over an old one, and says how to complete it."""
    ready = plan()
    directory.create(tmp_path / "run", ready, directory.manifest(ready))

    with pytest.raises(BenchmarkError, match="use --resume"):
        directory.create(tmp_path / "run", ready, directory.manifest(ready))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 4}, 'seed was "0" and is now "4"'),
        ({"protocol": "paper"}, 'protocol was "corrected" and is now "paper"'),
        ({"limit": 5}, 'limit was not set and is now "5"'),
        ({"model": "other"}, 'model was "scripted" and is now "other"'),
    ],
)
def test_resume_refuses_another_run(tmp_path: Path, options: dict[str, object], words: str) -> None:
    """A resumed run must be the same run; the message has both values."""
    before, after = plan(), plan(**options)

    with pytest.raises(BenchmarkError, match=words):
        directory.demand_same(tmp_path, directory.manifest(before), directory.manifest(after))


def test_an_unfinished_run_has_no_result(tmp_path: Path) -> None:
    """Asking for the result of an unfinished run says how to complete it."""
    ready = plan()
    directory.create(tmp_path / "run", ready, directory.manifest(ready))

    with pytest.raises(BenchmarkError, match="complete it with biasgate audit run --resume"):
        directory.read_result(tmp_path / "run")


@pytest.mark.parametrize("content", [b"\xff", b'{"suite": "\xff"}', b'{"x": ' + b"[" * 100_000, b"[" * 100_000])
def test_a_result_that_is_no_json_costs_one_line(tmp_path: Path, content: bytes) -> None:
    """Neither bytes that are no UTF-8 nor deep nesting end in a traceback; the same holds for replies."""
    for name in ("result.json", "responses.jsonl"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BenchmarkError, match="cannot be read"):
        directory.read_result(tmp_path)
    with pytest.raises(BenchmarkError, match="line 1"):
        directory.read_recorded(tmp_path / "responses.jsonl")


class TestScoring:
    """Replies recorded elsewhere."""

    @pytest.mark.parametrize("sample", [-1, 10_000, 30_000_000, 10**18])
    def test_a_sample_that_cannot_be_is_refused(self, tmp_path: Path, sample: int) -> None:
        """Every number below it would be looked at, for each item."""
        path = tmp_path / "mine.jsonl"
        path.write_text(f'{{"item_id": "a", "text": "x", "sample": {sample}}}\n')
        with pytest.raises(BenchmarkError, match=f'"a" has sample {sample}, which must be from 0 to 9999'):
            directory.read_recorded(path)

    def test_samples_and_items_are_bounded_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One late sample is not looked for in thousands of items."""
        ready = plan()
        monkeypatch.setattr(score, "MOST_REPLIES", ready.total - 1)
        with pytest.raises(BenchmarkError, match="are more than"):
            score_recorded(ready, [Reply(item_id=ready.items[0].item_id, text="x")], where="mine")

    def test_text_alone_is_enough(self, tmp_path: Path) -> None:
        """item_id and text are all a line needs; what is missing is in no number."""
        ready, path = plan(), tmp_path / "replies.jsonl"
        lines = [{"item_id": item.item_id, "text": pick("stereotype")(item)} for item in ready.items[:30]]
        path.write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines))

        result, replies = score_recorded(ready, directory.read_recorded(path), where=path.name)

        assert (result.counts["ok"], result.dataset.n_used, len(replies)) == (30, 30, 30)

    def test_foreign_items_are_refused(self) -> None:
        """Replies to items the suite does not have are an error that names one."""
        with pytest.raises(BenchmarkError, match=r'1 item ids are not of stereoset [0-9.]+ .* e.g. "nobody"'):
            score_recorded(plan(), [Reply(item_id="nobody", text="x")], where="file")


def test_what_resume_does_not_ask_again(tmp_path: Path) -> None:
    """A reply that failed and came later, or was embedded later, counts once; half a line of a kill never."""
    kept = [
        Reply(item_id="a", status="error"),
        Reply(item_id="a", text="x", status="ok"),
        Reply(item_id="a", text="x", status="ok", parsed="male"),
        Reply(item_id="a", sample=1, text="y", status="refusal"),
        Reply(item_id="b", status="error"),
    ]
    directory.write_replies(tmp_path, kept)
    with (tmp_path / directory.RESPONSES).open("ab") as file:
        file.write(b'{"item_id": "c", "te')

    assert directory.n_answered(tmp_path) == 2
    assert directory.n_answered(tmp_path / "not-begun") == 0
