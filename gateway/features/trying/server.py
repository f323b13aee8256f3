"""Asks a model's server that a user names: which models it serves, and for answers."""

import json
import os

from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, read_models
from auditors.clients.single_request import Answer, NoAnswerError, request
from auditors.types import CompletionError
from gateway.config.schema import origin_of
from gateway.errors import GatewayError

LIST_SECONDS = 10.0
ANSWER_SECONDS = 120.0
ANSWER_TOKENS = 200
LONGEST_ANSWER_BYTES = 1024 * 1024
LONGEST_WORDS = 200
"""Most characters of a server's own words in an error."""


class Server:
    """A server with OpenAI's API at a URL, with or without /v1."""

    def __init__(self, url: str, option: str, key_variable: str | None) -> None:
        """`option` is where the user named the URL. Raises GatewayError for no URL, or a variable that is not set."""
        if not url.startswith(("http://", "https://")):
            raise GatewayError(f'{option} "{url}" must start with http:// or https://')
        self.url = origin_of(url)
        self._headers = {"content-type": "application/json"}
        if key_variable is not None:
            if not (key := os.environ.get(key_variable)):
                raise GatewayError(f'environment variable "{key_variable}" (--api-key-env) is not set: export it')
            self._headers["authorization"] = f"Bearer {key}"

    async def models(self) -> list[str]:
        """Return the names of the models that it lists. Raises GatewayError where it lists none."""
        try:
            answer = await self._request("GET", MODELS_PATH, LIST_SECONDS, LONGEST_LIST_BYTES, None)
            names = [str(entry["id"]) for entry in read_models(answer.content)]
        except CompletionError as exc:
            raise GatewayError(f"{self.url}: {exc}") from exc
        if not names:
            raise GatewayError(f"{self.url}{MODELS_PATH} lists no model: start the server with a model")
        return names

    async def ask(self, model: str, prompt: str) -> None:
        """Send a chat with a single prompt. Raises GatewayError with the reason where the answer is not a 2xx."""
        chat = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": ANSWER_TOKENS}
        body = json.dumps(chat).encode()
        await self._request("POST", "/v1/chat/completions", ANSWER_SECONDS, LONGEST_ANSWER_BYTES, body)

    async def _request(self, method: str, path: str, seconds: float, longest: int, content: bytes | None) -> Answer:
        try:
            answer = await request(
                method, self.url + path, seconds=seconds, longest=longest, content=content, headers=self._headers
            )
        except NoAnswerError as exc:
            raise GatewayError(f"{self.url}{path} gives no usable answer ({exc}): is the server up?") from exc
        if answer.is_success:
            return answer
        words = answer.content[:LONGEST_WORDS].decode(errors="replace")
        hint = ": name its key with --api-key-env" if answer.status_code in (401, 403) else ""
        raise GatewayError(f"{self.url}{path} answers with status {answer.status_code} ({words}){hint}")
