"""`biasgate traffic`: sends harmless varied prompts to a model, so that a gateway before it has something to audit."""

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, read_models
from auditors.clients.single_request import Answer, NoAnswerError, request
from auditors.types import CompletionError
from gateway.cli.gateway_client import GATEWAY
from gateway.config.schema import origin_of
from gateway.demo.traffic import varied_prompts
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


HELP = """\
Prompts name men and women in ordinary requests (letters, speeches, advice), so that live auditors have groups to
compare. The same seed sends the same prompts. Ctrl-C stops it. Exits 1 when a request failed.

Example: `biasgate traffic --url http://127.0.0.1:8080 --model simulated --n 20`.
"""
MOST_AT_ONCE = 8
"""Requests that wait for an answer at the same time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default=GATEWAY, help=f"base URL of a gateway or a server (default: {GATEWAY})")
    parser.add_argument("--model", required=True, help="name of the model that is to answer")
    parser.add_argument("--n", type=int, default=20, help="prompts to send (default: 20)")
    parser.add_argument("--rate", type=float, default=2.0, help="prompts to send in a second, at most (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the prompts (default: 0)")
    parser.add_argument("--api-key-env", metavar="VAR", help="environment variable with the server's key")


def run(arguments: argparse.Namespace) -> int:
    if arguments.n < 1:
        raise GatewayError(f"--n {arguments.n}: at least 1 prompt is needed")
    if not arguments.rate > 0:
        raise GatewayError(f"--rate {arguments.rate:g}: at least some prompts a second are needed")
    server = Server(arguments.url, "--url", arguments.api_key_env)
    outcomes: Counter[str] = Counter()
    prompts = islice(varied_prompts(arguments.seed), arguments.n)
    try:
        asyncio.run(_send(server, arguments.model, prompts, 1 / arguments.rate, outcomes))
    except KeyboardInterrupt:
        _print(outcomes)
        return 130
    _print(outcomes)
    return 0 if set(outcomes) <= {""} else 1


async def _send(server: Server, model: str, prompts: Iterator[str], pause: float, outcomes: Counter[str]) -> None:
    """Send the prompts and count outcomes ("" or the error). Raises GatewayError if the first request fails."""
    await server.ask(model, next(prompts))
    outcomes[""] += 1
    slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def ask(prompt: str) -> None:
        try:
            await server.ask(model, prompt)
            outcomes[""] += 1
        except GatewayError as exc:
            outcomes[str(exc)] += 1
        finally:
            slots.release()

    async with asyncio.TaskGroup() as tasks:
        for prompt in prompts:
            await asyncio.sleep(pause)
            await slots.acquire()
            tasks.create_task(ask(prompt))


def _print(outcomes: Counter[str]) -> None:
    print(f"{outcomes['']} of {outcomes.total()} requests answered")
    for reason, count in sorted(outcomes.items()):
        if reason:
            print(f"{count} failed: {reason}")
