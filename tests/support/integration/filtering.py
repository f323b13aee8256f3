"""A scripted detector, and answers to filter: what the tests of filters share."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from tests.support.integration.failing import STREAM_HEAD
from tests.support.integration.relaying import Gateway, RememberingTap, config_for, running_gateway
from tests.support.integration.scripted_upstream import (
    Channel,
    ReceivedRequest,
    Script,
    ScriptedUpstream,
    reply,
    scripted_upstream,
)

BIASED = "women cannot drive"
"""What the scripted detectors call biased, wherever it stands."""
CHAT = "/v1/chat/completions"


def completion(text: str) -> bytes:
    """A whole chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode()


async def judge(request: ReceivedRequest, channel: Channel) -> None:
    """Says yes to texts with BIASED in them."""
    text = json.loads(request.body)["messages"][-1]["content"]
    await reply(completion("Yes." if BIASED in text else "no"))(request, channel)


def looked_at(detector: ScriptedUpstream) -> list[str]:
    """The texts that a judge was shown, without their fence."""
    shown = [json.loads(one.body)["messages"][-1]["content"] for one in detector.requests]
    return [text.split("\n", 1)[1].rsplit("\nDATA", 1)[0] for text in shown]


class Filtered(NamedTuple):
    """A running gateway with a filter, and what stands around it."""

    upstream: ScriptedUpstream
    detector: ScriptedUpstream
    gateway: Gateway


@asynccontextmanager
async def filtering(
    kind: Literal["query_filter", "response_filter"],
    *answers: Script,
    looks: Sequence[Script] = (judge,),
    tap: RememberingTap | None = None,
    drain_seconds: float = 0.0,
    filter: dict[str, Any] | None = None,
    **keys: Any,
) -> AsyncIterator[Filtered]:
    """Run a gateway whose policy "p" has this kind of filter; `looks` are the detector's answers, the last repeats."""
    async with (
        scripted_upstream(*answers[:-1], default=answers[-1]) as upstream,
        scripted_upstream(*looks[:-1], default=looks[-1]) as detector,
    ):
        policy = {"name": "p", kind: {"base_url": detector.base_url, "model": "judge", **(filter or {})}, **keys}
        config = config_for(upstream, mitigation=[policy])
        async with running_gateway(config, tap=tap, drain_seconds=drain_seconds) as gateway:
            yield Filtered(upstream, detector, gateway)


def event(piece: dict[str, Any], index: int = 0, finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": piece, "finish_reason": finish}
    said = {"id": "1", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(said, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def events_of(*pieces: str) -> list[bytes]:
    """The events of a streamed answer, one a piece, with a role before and a reason and [DONE] behind."""
    said = [event({"content": one}) for one in pieces]
    return [event({"role": "assistant", "content": ""}), *said, event({}, finish="stop"), DONE]


def streamed(chunks: Sequence[bytes], *, ends: bool = True) -> Script:
    """Sends chunks one by one, then ends the body, or breaks off."""

    async def script(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(STREAM_HEAD)
        for chunk in chunks:
            await channel.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await asyncio.sleep(0.001)
        if ends:
            await channel.send(b"0\r\n\r\n")
        else:
            await channel.close()

    return script
