"""Asking: order, resume, stop, errors, and determinism."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from auditors.types import Completion, CompletionError, CompletionRequest
from benchmarks.errors import BenchmarkError, DatasetError, RunStopped
from benchmarks.run.asker import GIVE_UP_AFTER
from benchmarks.run.result import Addresses
from benchmarks.run.runner import AUTO_CONCURRENCY, Progress, RunOptions, prepare, run, run_plan
from benchmarks.run.score import provenance_of, score
from benchmarks.suites.protocol import Reply
from tests.support.benchmarks.scripted import FailingCompleter, MemoryLog, ScriptedCompleter, pick, plan


async def test_a_run_asks_every_item_once() -> None:
    """One request per item and sample of a server that sends one reply, with the settings of the protocol."""
    ready = plan(protocol="paper", samples=2)
    completer = ScriptedCompleter(ready, pick("stereotype"))

    result = await run_plan(
        ready, completer=completer, log=MemoryLog(), addresses=Addresses(base_url="http://here:1/v1")
    )

    assert len(completer.asked) == 96
    first = completer.asked[0]
    assert (first.model, first.max_tokens, first.temperature, first.top_p) == ("scripted", 3, 1.0, 0.95)
    assert first.seed is None
    neutral = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "min_p": 0}
    assert first.extra == neutral | {"top_k": 50, "n": 2}
    assert completer.asked[-1].extra == neutral | {"top_k": 50}
    assert result.n_replies == 96
    assert (result.provenance.requests, result.provenance.base_url_host) == (97, "here:1")  # 96 and a probe


async def test_result_does_not_depend_on_the_order_of_replies() -> None:
    """The same replies give the same numbers, interval ends included, one at a time or all at once."""
    estimates = []
    for concurrency in (1, 48):
        ready = plan(concurrency=concurrency)
        completer = ScriptedCompleter(ready, lambda item: item.choices[len(item.item_id) % 3].text)
        estimates.append((await run_plan(ready, completer=completer, log=MemoryLog())).estimates)

    assert estimates[0] == estimates[1]


async def test_requests_in_flight_are_bounded() -> None:
    """Never more than `concurrency`, and all of it is used; automatic is a fixed number."""
    for concurrency, most in ((5, 5), (None, AUTO_CONCURRENCY)):
        ready = plan(concurrency=concurrency)
        completer = ScriptedCompleter(ready, pick("stereotype"), delay=0.002)
        await run_plan(ready, completer=completer, log=MemoryLog())

        assert completer.most_in_flight == most


async def test_stop_keeps_what_arrived_and_resume_asks_the_rest() -> None:
    """A stopped run raises with its counts; the same log completes it without asking anything twice."""
    ready, log, stop = plan(concurrency=2), MemoryLog(), asyncio.Event()
    first = ScriptedCompleter(ready, pick("stereotype"))

    def stop_at_ten(progress: Progress) -> None:
        if progress.done >= 10:
            stop.set()

    with pytest.raises(RunStopped) as stopped:
        await run_plan(ready, completer=first, log=log, stop=stop, on_progress=stop_at_ten)
    kept = len(log.replies)
    second = ScriptedCompleter(ready, pick("stereotype"))
    result = await run_plan(ready, completer=second, log=log)

    assert 10 <= kept == stopped.value.done < 48
    assert len(second.asked) == 48 - kept
    whole = await run_plan(ready, completer=ScriptedCompleter(ready, pick("stereotype")), log=MemoryLog())
    assert result.estimates == whole.estimates


async def test_resume_asks_errors_again() -> None:
    """A reply with status error is not an answer: it is asked again and replaced."""
    ready = plan()
    log = MemoryLog([Reply(item_id=ready.items[0].item_id, status="error", error="timeout: x")])
    completer = ScriptedCompleter(ready, pick("anti-stereotype"))

    result = await run_plan(ready, completer=completer, log=log)

    assert len(completer.asked) == 48
    assert result.counts["error"] == 0


async def test_single_errors_are_counted_and_excluded() -> None:
    """Requests that fail for good have status error, carry the reason, and are in no denominator."""
    ready = plan()

    class Flaky(ScriptedCompleter):
        async def complete(self, request: CompletionRequest) -> Completion:
            if len(self.asked) % 8 == 7:
                self.asked.append(request)
                raise CompletionError("timeout", "no reply within 1 s")
            return await super().complete(request)

    log = MemoryLog()
    result = await run_plan(ready, completer=Flaky(ready, pick("stereotype")), log=log)

    assert (result.counts["ok"], result.counts["error"]) == (42, 6)
    assert {reply.error for reply in log.replies if reply.status == "error"} == {"timeout: no reply within 1 s"}
    total = next(e for e in result.estimates if (e.metric, e.axis, e.subset) == ("lms", None, None))
    assert (total.n, total.n_excluded) == (42, 6)


@pytest.mark.parametrize("code", [401, 403, 404])
async def test_a_refusing_server_stops_the_run_at_once(code: int) -> None:
    """A wrong key or model ends the run with the server's own words."""
    completer = FailingCompleter(CompletionError("rejected", f"status {code}: no such model", status_code=code))

    with pytest.raises(BenchmarkError, match=f"refuses: status {code}: no such model"):
        await run_plan(plan(concurrency=1), completer=completer, log=MemoryLog())
    assert completer.n_asked == 1


async def test_a_silent_server_stops_the_run_after_a_few() -> None:
    """A server that never answers costs GIVE_UP_AFTER requests, not the whole suite."""
    completer = FailingCompleter(CompletionError("unavailable", "127.0.0.1:9: refused"))

    with pytest.raises(
        BenchmarkError,
        match=r"none of the first 20 requests to the model server was answered; the last: 127\.0\.0\.1:9",
    ):
        await run_plan(plan(concurrency=1), completer=completer, log=MemoryLog())
    assert completer.n_asked == GIVE_UP_AFTER + 1  # and the question whether it thinks


async def test_a_refusal_field_is_a_refusal() -> None:
    """What the server itself marks as a refusal is one, whatever its words."""
    ready = plan(limit=1)

    class Refuser(FailingCompleter):
        async def complete(self, request: CompletionRequest) -> Completion:
            return Completion(text=None, refusal="Not this time.")

    log = MemoryLog()
    await run_plan(ready, completer=Refuser(CompletionError("internal", "")), log=log)

    assert [(reply.status, reply.text, reply.rule) for reply in log.replies] == [
        ("refusal", "Not this time.", "refusal-field")
    ]


async def test_a_failing_log_ends_the_run_with_its_own_error() -> None:
    """When replies cannot be kept the run stops, and the error is the log's."""

    class FullDisk(MemoryLog):
        async def append(self, replies: Sequence[Reply]) -> Sequence[int]:
            raise BenchmarkError("disk full")

    ready = plan()
    with pytest.raises(BenchmarkError, match=r"^disk full$"):
        await run_plan(ready, completer=ScriptedCompleter(ready, pick("stereotype")), log=FullDisk())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"suite": "stereset"}, r'unknown suite "stereset" \(did you mean "stereoset"\?\)'),
        ({"mitigation": "abstrct"}, r'mitigation "abstrct" is not offered \(did you mean "abstract"\?\)'),
        ({"suite": "bbq", "protocol": "release"}, 'protocol "release" is not offered; offered: corrected, paper'),
        ({"suite": "stereoset", "protocol": "release"}, 'protocol "release" is not offered; offered: corrected, paper'),
        ({"suite": "eec", "mode": "exact"}, 'mode "exact" is not offered; offered: sample'),
        ({"few_shot": 3}, "few-shot 3 is not offered"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"samples": -1}, "samples must be at least 1, not -1"),
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"seed": -1}, "seed must not be negative"),
        ({"mode": "exact", "samples": 3}, "samples must be 1, not 3"),
        ({"thinking": "maybe"}, 'thinking "maybe" is not known'),
        ({"extra_body": {"messages": []}}, '"messages" is set by the run itself'),
        ({"extra_body": {"temperature": 0}}, "use --temperature"),
        ({"thinking": "on", "mode": "exact"}, "mode exact reads the first words"),
        ({"temperature": 3.0}, "temperature must be from 0 to 2, not 3"),
        ({"precision": 0.0}, "precision must be above 0 and below 1, e.g. 0.02 for ±2 of 100, not 0"),
        ({"precision": float("nan")}, "not nan"),
        ({"suite": "cogs", "precision": 0.02}, "cogs: precision is not offered: its questions are made from its repl"),
        ({"repeat_share": 1.5}, "repeat share must be above 0 and at most 1"),
        ({"repeat_share": float("nan")}, "repeat share must be above 0 and at most 1"),
        ({"suite": "cogs", "repeat_share": 0.1}, "cogs: repeat share is not offered"),
        ({"suite": "ltf_test", "subset": "evil"}, 'subset "evil" has no item; subsets: eval'),
    ],
)
def test_what_cannot_be_honoured_is_refused(options: dict[str, object], words: str) -> None:
    """An option the suite does not offer is an error that names it, never ignored."""
    with pytest.raises(BenchmarkError, match=words) as refused:
        plan(**options)
    assert "\n" not in str(refused.value)


async def test_missing_data_names_the_remedy(tmp_path: Path) -> None:
    """Canonical data that is not there costs one line with the command that fetches it."""
    with pytest.raises(DatasetError, match="biasgate datasets fetch stereoset"):
        await run(
            RunOptions(suite="stereoset", model="m"),
            completer=FailingCompleter(CompletionError("internal", "")),
            log=MemoryLog(),
            data_dir=tmp_path,
        )


def test_a_plan_of_some_axes() -> None:
    """The plan picks the named axes before the limit, the result names them, and an unknown axis is refused."""
    options = RunOptions(suite="ltf_test", model="m", axes=("age", "gender"), limit=60)
    ready = prepare(options)
    assert {item.axis for item in ready.items} == {"age", "gender"}
    assert len(ready.items) == 60
    result = score(ready, {}, provenance_of(ready, {}))
    assert (result.axes, result.series["axes"]) == (("age", "gender"), "age, gender")
    whole = prepare(RunOptions(suite="ltf_test", model="m", limit=60))
    assert score(whole, {}, provenance_of(whole, {})).series["axes"] is None
    with pytest.raises(BenchmarkError, match='axis "shoes" is not offered; offered: gender, religion'):
        prepare(RunOptions(suite="ltf_test", model="m", axes=("shoes",)))
