"""How upstreams fail, byte by byte, and how a test reads what became of it."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import httpx

from tests.support.integration.relaying import Gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script

EVENT = b'data: {"n": 1}\n\n'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_START = STREAM_HEAD + b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


async def drips(_: ReceivedRequest, channel: Channel) -> None:
    await channel.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        await channel.send(b" ")
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Base URL of a port that answers no attempt to connect: a listener whose queue is full."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        yield f"http://127.0.0.1:{full.getsockname()[1]}"


async def hang(_: ReceivedRequest, channel: Channel) -> None:
    """Says nothing until the other side hangs up."""
    await channel.reader.read(-1)
    await channel.close()


def hang_after(data: bytes) -> Script:
    async def script(request: ReceivedRequest, channel: Channel) -> None:
        await channel.send(data)
        await hang(request, channel)

    return script


async def reset(_: ReceivedRequest, channel: Channel) -> None:
    channel.reset()


def error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def only_end(gateway: Gateway) -> tuple[str, str, bool]:
    (end,) = gateway.stats.ends
    return end["outcome"], end["upstream"], end["was_started"]
