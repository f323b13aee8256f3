"""A server between gateway and a simulated model that makes it think before it answers, as servers with a parser do."""

from typing import Any

import msgspec

from tests.support.integration.model_front import ModelFront, send_json, whole_body


class ThinkingFront(ModelFront):
    """An ASGI app. Its model thinks so many tokens before every answer, unless its chat template is told not to."""

    def __init__(self, thought: str, tokens: int, *, is_switchable: bool = True, has_parser: bool = True) -> None:
        """`has_parser`: its thoughts come in a field of their own, else in the text, before a mark that ends them."""
        self.bodies = list[dict[str, Any]]()
        """Chat completions that were asked for."""
        self._thought, self._tokens = thought, tokens
        self._is_switchable, self._has_parser = is_switchable, has_parser

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = await whole_body(receive)
        answer = await self._http.request(scope["method"], scope["path"], content=body)
        reply = answer.content
        if scope["path"] == "/v1/chat/completions" and answer.status_code == 200:
            reply = self._thought_about(msgspec.json.decode(body), msgspec.json.decode(reply))
        await send_json(send, answer.status_code, reply)

    def _thought_about(self, request: dict[str, Any], response: dict[str, Any]) -> bytes:
        self.bodies.append(request)
        switched_off = request.get("chat_template_kwargs", {}).get("enable_thinking") is False
        if switched_off and self._is_switchable:
            return msgspec.json.encode(response)
        choice = response["choices"][0]
        said = choice["message"]
        is_cut = request["max_tokens"] <= self._tokens
        if is_cut:
            said["content"], choice["finish_reason"] = None, "length"
        if self._has_parser:
            said["reasoning"] = self._thought
        else:
            said["content"] = self._thought if is_cut else f"{self._thought}\n</think>\n\n{said['content']}"
        return msgspec.json.encode(response)
