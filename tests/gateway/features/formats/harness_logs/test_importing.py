"""Logs that lm-evaluation-harness and Inspect wrote (tools/recording/harness_logs), as runs of ours."""

import copy
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.registry import find
from gateway.__main__ import main
from gateway.features.formats import import_log
from gateway.features.formats.harness_logs import inspect, lm_eval
from gateway.features.formats.harness_logs import log as log_module
from gateway.features.formats.harness_logs.log import Log, LogError
from gateway.features.formats.import_log import Matcher, imported
from tools.recording.harness_logs.__main__ import N_ITEMS

RECORDED = Path(__file__).parent / "recorded"
INSPECT = RECORDED / "inspect.json"
GENERATED = next(RECORDED.glob("samples_bbq_generate_*.jsonl"))
LIKELIHOOD = next(RECORDED.glob("samples_bbq_multiple_choice_*.jsonl"))
OPTIONS = RunOptions(suite="bbq", model="m", data="embedded")
RECORDS = {record["id"]: record for record in find("bbq").load("embedded").records}
Rows = list[dict[str, Any]]


def rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


def changed(tmp_path: Path, path: Path, change: Callable[[Any], Any]) -> Path:
    """The log with a change: a list of lines, or the document."""
    made = tmp_path / path.name
    if path.suffix == ".jsonl":
        found = rows(path)
        change(found)
        made.write_text("".join(json.dumps(row) + "\n" for row in found))
    else:
        document = json.loads(path.read_text())
        change(document)
        made.write_text(json.dumps(document))
    return made


def replies(log: Log) -> dict[str, tuple[str, str | None, Any]]:
    """By the item's own text, which no place in a file says."""
    run = imported(log, OPTIONS)
    return {one.item_id: (one.status, one.text, one.parsed) for one in run.replies}


def role(record: dict[str, Any], place: int) -> str:
    """Of an answer in file order."""
    if record["groups"][place] == "unknown":
        return "unknown"
    return "stereotype" if place == record["target"] else "anti-stereotype"


def expected(rows_: Rows, named: list[int | None]) -> dict[str, tuple[str, str | None, Any]]:
    """What the scripted models named, by place among the three answers of a row, None where they declined."""
    found: dict[str, tuple[str, str | None, Any]] = {}
    for row, place in zip(rows_, named, strict=True):
        for record in RECORDS.values():
            if (record["context"], record["question"]) == (row["context"], row["question"]):
                declined = ("refusal", "I'm sorry, but I can't help with that.", None)
                spoken = declined if place is None else ("ok", record["answers"][place], role(record, place))
                found[record["id"]] = spoken
    return found


QUESTIONS = [row["doc"] for row in rows(LIKELIHOOD)]


def test_likelihoods() -> None:
    """The continuation with the largest log-likelihood is the reply: always the second, in whatever role."""
    found = replies(lm_eval.read(LIKELIHOOD))
    assert found == expected(QUESTIONS, [1] * len(QUESTIONS))
    assert len(found) == N_ITEMS


def test_generated_texts() -> None:
    """Texts are read by the suite; a letter that was never shown is none."""
    log = lm_eval.read(GENERATED)
    places = [(0, 1, None, 2, "letter")[at % 5] for at in range(len(QUESTIONS))]
    read = [(row, place) for row, place in zip(QUESTIONS, places, strict=True) if place != "letter"]
    found = {item: (status, parsed) for item, (status, _, parsed) in replies(log).items()}
    wanted = expected([row for row, _ in read], [place for _, place in read])  # type: ignore[misc]
    assert found == {item: (status, parsed) for item, (status, _, parsed) in wanted.items()}
    origin = imported(log, OPTIONS).result.provenance.imported
    assert origin is not None
    n_letters = sum(
        place == "letter" and row["question"] != "Who?" for row, place in zip(QUESTIONS, places, strict=True)
    )
    assert origin.left_out == {import_log.UNSHOWN: n_letters, import_log.NO_ITEM: 1}


def test_letters_are_read_as_they_were_shown() -> None:
    """Inspect's letters stand for its order of the options, not for ours; the text kept is the option's."""
    named = [(0, 1, 2, None)[at % 4] for at in range(len(QUESTIONS))]
    assert replies(inspect.read(INSPECT)) == expected(QUESTIONS, named)


def test_what_cannot_be_taken_is_counted(tmp_path: Path) -> None:
    """A changed word, a second reply, one without a log-likelihood, and letters shown otherwise: each by its reason."""

    def spoil(found: Rows) -> None:
        found[0]["doc"]["context"] += " Or so it seemed."
        found[1]["resps"][0][0][0] = "nan"
        found.append(dict(found[2]))

    run = imported(lm_eval.read(changed(tmp_path, LIKELIHOOD, spoil)), OPTIONS)
    origin = run.result.provenance.imported
    assert origin is not None
    assert origin.left_out == {import_log.NO_ITEM: 2, import_log.NO_REPLY: 1, import_log.AGAIN: 1}
    assert len(run.replies) == N_ITEMS - 2

    def turn(document: Any) -> None:
        document["samples"][0]["choices"].reverse()
        document["samples"][1]["output"]["choices"] = []

    run = imported(inspect.read(changed(tmp_path, INSPECT, turn)), OPTIONS)
    origin = run.result.provenance.imported
    assert origin is not None
    assert origin.left_out == {import_log.MOVED: 1, import_log.NO_REPLY: 1, import_log.NO_ITEM: 1}


@pytest.mark.parametrize("epoch", [10**18, -3, 1.5, 1001, "2", True])
def test_an_epoch_that_cannot_be_is_left_out_and_counted(tmp_path: Path, epoch: Any) -> None:
    """Whatever stands in its place costs no memory, and takes no other reply with it."""

    def spoil(document: Any) -> None:
        for sample in document["samples"][:2]:
            sample["epoch"] = epoch

    run = imported(inspect.read(changed(tmp_path, INSPECT, spoil)), OPTIONS)
    origin = run.result.provenance.imported
    assert origin is not None
    assert origin.left_out[import_log.NO_SAMPLE] == 2
    assert run.plan.options.samples == 1


def test_samples_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies to a question beyond the bound are left out; so many places in all as fit into memory."""

    def repeat(found: Rows) -> None:
        found[0]["resps"][0] *= 1500

    path = changed(tmp_path, GENERATED, repeat)
    run = imported(lm_eval.read(path), OPTIONS)
    origin = run.result.provenance.imported
    assert origin is not None
    assert (run.plan.options.samples, origin.left_out[import_log.NO_SAMPLE]) == (1000, 500)
    monkeypatch.setattr(import_log, "MOST_PLACES", 1999)
    with pytest.raises(BenchmarkError, match="with 1000 samples each are more than 1999 replies"):
        imported(lm_eval.read(path), OPTIONS)


HOSTILE: tuple[Any, ...] = (None, 2**53 + 1, "\x1b[31m\u202e", [[]], {"": {}})


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from _places(node[key], (*path, key))
    elif isinstance(node, list) and node:
        yield from _places(node[0], (*path, 0))


@pytest.mark.parametrize("harness", ["inspect", "lm-eval"])
def test_any_field_may_hold_anything(tmp_path: Path, harness: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of a log replaced by values of every kind: it is imported, or one error says why not."""
    # The same for every log, and slow.
    scored, prepared = imported(inspect.read(INSPECT), OPTIONS).result, prepare(OPTIONS)
    monkeypatch.setattr(import_log, "score", lambda *_: scored)
    monkeypatch.setattr(import_log, "prepare", lambda _: prepared)
    original: Any = json.loads(INSPECT.read_text()) if harness == "inspect" else rows(LIKELIHOOD)[:2]
    if harness == "inspect":
        names = inspect.Sample.__struct_fields__  # what is not read cannot do harm
        samples = [{name: sample[name] for name in names} for sample in original["samples"][:2]]
        original = {"eval": {"task": "t", "model": "m", "packages": {"inspect_ai": "1"}}, "samples": samples}
    path = tmp_path / ("log.json" if harness == "inspect" else LIKELIHOOD.name)
    for place in filter(None, _places(original)):
        for value in HOSTILE:
            document = copy.deepcopy(original)
            node = document
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = value
            lines = [document] if harness == "inspect" else document
            path.write_text("\n".join(map(json.dumps, lines)))
            with suppress(BenchmarkError):
                imported((inspect if harness == "inspect" else lm_eval).read(path), OPTIONS)


@pytest.mark.parametrize("reader", [inspect.read, lm_eval.read])
def test_a_log_that_no_reader_should_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Path], Log]
) -> None:
    """A pipe, a directory, a file that is too large, and JSON nested without end are refused in one line."""
    pipe, deep, large = tmp_path / "pipe", tmp_path / "deep", tmp_path / "large"
    os.mkfifo(pipe)
    head = b'{"eval": {"task": "t"}, "samples": [], "doc_id": 1, "arguments": {}, "resps": [], "doc": {"x": '
    deep.write_bytes(head + b"[" * 100_000 + b"]" * 100_000 + b"}}")
    large.write_bytes(b" " * 101)
    for path, words in ((pipe, "not a regular file"), (tmp_path, "not a regular file"), (deep, "recursion depth")):
        with pytest.raises(LogError, match=words):
            reader(path)
    monkeypatch.setattr(log_module, "LARGEST_BYTES", 100)
    with pytest.raises(LogError, match="more than 100 bytes"):
        reader(large)


def test_items_that_say_the_same_are_not_guessed(tmp_path: Path) -> None:
    """A context that another one continues is told from it, and what several items say is of none."""
    suite = find("bbq")
    contexts = sorted({record["context"] for record in RECORDS.values()}, key=len)
    assert any(longer.startswith(shorter) for shorter in contexts for longer in contexts if longer != shorter)
    twice = [*RECORDS.values(), *({**record, "id": f"again-{key}"} for key, record in RECORDS.items())]
    contents = suite.contents(msgspec.structs.replace(suite.load("embedded"), records=twice))
    assert contents is not None
    matcher = Matcher(contents)
    assert {len(matcher.found(one)) for one in inspect.read(INSPECT).answers} == {0, 2}
    assert {len(matcher.found(one)) for one in lm_eval.read(GENERATED).answers} == {0, 2}


def command(*arguments: str) -> int:
    return main(["audit", "import", *arguments, "--data", "embedded"])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run directory that report, score and compare read; runs of two harnesses are no pair."""
    one, two, again = (str(tmp_path / name) for name in ("one", "two", "again"))
    assert command(str(INSPECT), "--from", "inspect", "--suite", "bbq", "--out", one) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{one}: {N_ITEMS} of {N_ITEMS + 1} replies, asked by inspect 0.3.285\nleft out: 1: no item")
    assert command(str(LIKELIHOOD), "--from", "lm-eval", "--suite", "bbq", "--out", two) == 0
    result = directory.read_result(Path(one))
    assert result.model == "mockllm/model"

    assert main(["audit", "report", one, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "inspect 0.3.285, task bbq, with its prompts; 11 replies in its log, 1 left out: no item" in page
    assert "biasgate audit import --from inspect LOG --suite bbq" in page
    scored = ["--responses", f"{one}/responses.jsonl", "--data", "embedded", "--out", again]
    assert main(["audit", "score", "--suite", "bbq", *scored]) == 0
    assert directory.read_result(Path(again)).counts == result.counts
    assert [one.value for one in directory.read_result(Path(again)).estimates] == [
        one.value for one in result.estimates
    ]
    bundle = str(tmp_path / "bundle")
    assert main(["audit", "bundle", one, "--out", bundle]) == 0
    assert main(["audit", "score", bundle]) == 0
    said = capsys.readouterr().out
    assert "items: the bundle's own; with the prompts of inspect 0.3.285, task bbq\n" in said
    assert " 0 differences" in said
    assert main(["audit", "compare", one, one]) == 0
    assert main(["audit", "compare", one, two]) == 2
    assert "asked_by is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "harness", "words"),
    [
        (b"PK\x03\x04rest", "inspect", "inspect log convert"),
        (b"{}", "inspect", "no log of Inspect"),
        (b"\xff", "inspect", "line 1: not UTF-8"),
        (b'{"eval": {"task": "t"}}', "inspect", "holds no sample"),
        (b"", "lm-eval", "holds no sample"),
        (b'\n{"doc_id": 1}', "lm-eval", "line 2: no sample of lm-eval"),
        (b'{"doc_id":1,"doc":{},"arguments":{},"resps":[]}', "lm-eval", "no reply of the log is to an item of bbq"),
    ],
)
def test_no_log(tmp_path: Path, content: bytes, harness: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no log is one line that says so, and no directory is made."""
    (tmp_path / "log").write_bytes(content)
    out = tmp_path / "out"
    assert command(str(tmp_path / "log"), "--from", harness, "--suite", "bbq", "--out", str(out)) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert not out.exists()
