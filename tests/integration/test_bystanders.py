"""One client's bodies do not hold up the others of its worker: no step of the event loop is long, whatever comes in."""

import asyncio
import select
import socket

import pytest

from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import scripted_upstream
from tests.support.steps import watched

BYTES = 31_000_000
STEP_SECONDS = 0.25
"""Of processor time, with a test's own upstream on the same loop. The steps were of ten seconds and more before."""


def post(port: int, body: bytes) -> int:
    """The status of the answer to this body, sent until there is one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body))
        sent, rest = 0, memoryview(body)
        while sent < len(body) and not select.select([client], [], [], 0)[0]:
            sent += client.send(rest[sent : sent + 256 * 1024])
        return int(client.recv(65536).split(b" ")[1])


HOSTILE = {
    "small tokens beside a priority": (b'{"model":"m","priority":1,"x":[%b1]}', b"1,", 413),
    "brackets": (b'{"model":"m","priority":1,"x":[%b1]}', b"[],", 413),
    "steps of brackets": (b'{"model":"m","priority":1,"x":[%b1]}', b"[[[[[[[[[[[[]]]]]]]]]]]],", 413),
    "no number": (b'{"model":"m","x":[%bNaN]}', b"1,", 413),
    "no number after a text": (b'{"model":"m","x":"%b","y":NaN}', b"words ", 400),
    "members": (b'{"model":"m"%b}', b',"a":"a long value of some hundred characters, %b"' % (b"x" * 300), 400),
    "models": (b'{"model":"m","x":"%b","model":"m"}', b"words ", 200),
    "one text": (b'{"model":"m","priority":1,"x":"%b"}', b"a", 200),
    "escapes": (b'{"model":"m","priority":1,"x":"%b"}', b"\\n", 413),
    "white space": (b'{"model":"m","priority":1,"x":%b1}', b" ", 413),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_body_holds_up_the_others(name: str) -> None:
    """31 MB of whatever is slow to read, where an alias is to be set or a priority taken out."""
    form, unit, status = HOSTILE[name]
    body = form % (unit * (BYTES // len(unit)))
    async with scripted_upstream() as upstream:
        config = config_for(upstream, aliases={"m": "real"})
        async with running_gateway(config) as gateway, watched() as steps:
            answered = await asyncio.to_thread(post, gateway.port, body)

    assert answered == status
    assert steps.longest_seconds < STEP_SECONDS
