"""A server between gateway and model that fails auditors' questions with certain words, and relays everything else."""

from typing import Any, Literal

import msgspec

from auditors.clients.completion import UNSAMPLED
from tests.support.integration.model_front import ModelFront, send_json, whole_body

Fault = Literal["answers 500", "answers nonsense", "hangs"]


class FailingProbes(ModelFront):
    """An ASGI app. While `fault` is set it meets the model's questions by auditors that hold `words`."""

    def __init__(self, words: str, *, model: str) -> None:
        self.fault: Fault | None = None
        self.met = 0
        """Questions that were failed."""
        self._words = words
        self._model = model

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = await whole_body(receive)
        status, reply = 200, b'{"choices": 7}'
        if self.fault is None or not self._is_met(dict(scope["headers"]), body):
            answer = await self._http.request(scope["method"], scope["path"], content=body)
            status, reply = answer.status_code, answer.content
        elif self.fault == "hangs":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        elif self.fault == "answers 500":
            status = 500
        await send_json(send, status, reply)

    def _is_met(self, headers: dict[bytes, bytes], body: bytes) -> bool:
        marked = all(headers.get(name.encode()) == value.encode() for name, value in UNSAMPLED.items())
        if not marked or self._words.encode() not in body:
            return False
        is_met: bool = msgspec.json.decode(body)["model"] == self._model
        self.met += is_met
        return is_met
