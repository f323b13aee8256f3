"""Questions that share a request: which do, what becomes of each, and servers that take no batches."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from auditors.clients.chat_format import batch_body, parse_batch
from auditors.types import Completion, CompletionError, CompletionRequest, FailureKind, Message
from benchmarks.errors import RunStopped
from benchmarks.run.exact.batching import MOST_TOGETHER, Batching
from benchmarks.run.exact.server import Usage


def question(text: str, **fields: object) -> CompletionRequest:
    return CompletionRequest(model="m", messages=(Message("user", text),), max_tokens=6, extra=fields)


def said(request: CompletionRequest) -> Completion:
    return Completion(text=request.messages[0].content.upper(), usage={"prompt_tokens": 1})


class Server:
    """Answers with the question in capitals; the texts of each request are kept."""

    def __init__(self, refusal: CompletionError | None = None) -> None:
        self.asked = list[list[str]]()
        self._refusal = refusal

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append([request.messages[0].content])
        if request.messages[0].content == "bad":
            raise CompletionError("rejected", "too long", status_code=400)
        return said(request)

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        self.asked.append([one.messages[0].content for one in requests])
        await asyncio.sleep(0.01)
        if self._refusal:
            raise self._refusal
        if "bad" in self.asked[-1]:
            raise CompletionError("rejected", "too long", status_code=400)
        return [said(one) for one in requests]

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_what_is_asked_within_a_moment_shares_requests() -> None:
    """Each question gets its own reply, and the requests add up to those sent."""
    server, usage = Server(), Usage()
    texts = [f"q{number}" for number in range(2 * MOST_TOGETHER + 3)]
    completer = Batching(server)
    found = await asyncio.gather(*(completer.complete(question(text, top_k=-1)) for text in texts))
    for one in found:
        usage.add(one)
    assert [one.text for one in found] == [text.upper() for text in texts]
    assert [len(asked) for asked in server.asked] == [MOST_TOGETHER, MOST_TOGETHER, 3]
    assert usage.n_requests == 3


async def test_other_fields_are_another_request() -> None:
    """Only questions that differ in nothing but their messages share one; what a batch may not take goes alone."""
    server = Server()
    completer = Batching(server)
    asked = [question("a"), question("b", top_k=1), question("c"), question("d", reasoning_effort="low"), question("e")]
    await asyncio.gather(*map(completer.complete, asked))
    assert sorted(server.asked) == [["a", "c", "e"], ["b"], ["d"]]


@pytest.mark.parametrize(
    ("kind", "status"), [("rejected", 404), ("rejected", 405), ("rejected", 501), ("malformed", 200)]
)
async def test_a_server_without_batches_is_asked_once(kind: FailureKind, status: int) -> None:
    """From then on each question goes alone; none is lost."""
    server = Server(CompletionError(kind, "no", status_code=status))
    completer = Batching(server)
    for _ in range(2):
        found = await asyncio.gather(*(completer.complete(question(text)) for text in "abc"))
        assert [one.text for one in found] == ["A", "B", "C"]
    assert server.asked == [["a", "b", "c"], *[["a"], ["b"], ["c"]] * 2]


async def test_one_bad_question_spoils_no_other() -> None:
    """The server refuses the batch for it; asked alone, the others are answered, and batches go on."""
    server = Server()
    completer = Batching(server)
    found = await asyncio.gather(
        *(completer.complete(question(text)) for text in ("a", "bad", "c")), return_exceptions=True
    )
    assert [one.text if isinstance(one, Completion) else str(one) for one in found] == ["A", "too long", "C"]
    await asyncio.gather(*(completer.complete(question(text)) for text in "xy"))
    assert server.asked[-1] == ["x", "y"]


async def test_who_leaves_does_not_take_the_others_along() -> None:
    """Before the batch is sent, and while it is answered."""
    server = Server()
    completer = Batching(server)
    early, late, stays = (asyncio.create_task(completer.complete(question(text))) for text in "abc")
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.sleep(0.006)
    late.cancel()
    assert (await stays).text == "C"
    assert server.asked == [["b", "c"]]


def test_a_batch_on_the_wire() -> None:
    """The fields of one request with all conversations; choices come in any order, usage and fingerprint once."""
    body = msgspec.json.decode(batch_body([question("a", top_k=-1), question("b", top_k=-1)], priority=10))
    assert body["messages"] == [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]
    assert (body["top_k"], body["priority"], body["max_tokens"]) == (-1, 10, 6)
    choices = [
        {"index": place, "message": {"content": text}, "finish_reason": "stop"} for place, text in ((1, "B"), (0, "A"))
    ]
    reply = {"choices": choices, "usage": {"prompt_tokens": 7}, "system_fingerprint": "f"}
    first, second = parse_batch(msgspec.json.encode(reply), 2)
    assert (first.text, first.usage, first.fingerprint) == ("A", {"prompt_tokens": 7}, "f")
    assert (second.text, second.usage, second.fingerprint) == ("B", None, "f")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"index": 0, "message": {}}]}',
        b'{"choices": [{"index": 0, "message": {}}, {"index": 0, "message": {}}]}',
        b'{"choices": [{"index": 0, "message": {}}, {"index": 2, "message": {}}]}',
        b'{"choices": [{"index": 0, "message": {}}, {"index": 1}]}',
        b'{"choices": [{"index": 0, "message": {}}, {"index": 1, "message": {}}, {"index": 2, "message": {}}]}',
        b'{"choices": [' + b"[" * 100_000 + b"]}",
    ],
)
def test_a_batch_that_cannot_be_told_apart_is_malformed(body: bytes) -> None:
    """No reply is given to a question that it may not belong to."""
    with pytest.raises(CompletionError) as caught:
        parse_batch(body, 2)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("n", [1, 3])
async def test_whatever_ends_a_request_ends_those_who_wait_for_it(n: int) -> None:
    """That a run is stopped while its gate holds a request back, too: nobody waits for ever."""

    class Stopped(Server):
        async def complete(self, request: CompletionRequest) -> Completion:
            raise RunStopped(1, 2)

        async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
            raise RunStopped(1, 2)

    batching = Batching(Stopped())
    asked = asyncio.gather(*(batching.complete(question(str(k))) for k in range(n)), return_exceptions=True)
    found = await asyncio.wait_for(asked, 10)
    assert [type(one) for one in found] == [RunStopped] * n


async def test_given_up_with_what_is_in_flight() -> None:
    """A completer that is closed leaves nobody waiting."""

    class Silent(Server):
        async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
            await asyncio.Event().wait()
            raise AssertionError

    batching = Batching(Silent())
    asked = [asyncio.create_task(batching.complete(question(str(k)))) for k in range(MOST_TOGETHER)]
    await asyncio.sleep(0.01)
    await batching.aclose()
    done, waiting = await asyncio.wait(asked, timeout=10)
    assert not waiting
    assert all(one.cancelled() for one in done)
