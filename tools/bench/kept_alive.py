"""An upstream as vLLM is one: uvicorn, which closes a connection that was idle for its keep-alive time.

Every POST is answered after a moment, as one JSON document or, with "stream", as three events.

Example:
  python -m tools.bench.kept_alive 8000 5
"""

import asyncio
import json
import sys
from typing import Any

import uvicorn

from tools.bench.upstream import MODELS, REPLY

THINKING_SECONDS = 0.02
"""Long enough for the requests of one burst to need a connection each."""
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "A"}}]}\n\n'


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI application."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["method"] == "POST":
        await asyncio.sleep(THINKING_SECONDS)
    if body and json.loads(body).get("stream"):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for event in (EVENT, EVENT, b"data: [DONE]\n\n"):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    text = {"/v1/models": MODELS, "/health": ""}.get(scope["path"], REPLY).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


if __name__ == "__main__":
    uvicorn.run(
        app, port=int(sys.argv[1]), timeout_keep_alive=int(sys.argv[2]), log_level="warning", lifespan="off", ws="none"
    )
