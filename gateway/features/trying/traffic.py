"""`biasgate traffic`: sends harmless varied prompts to a model, so that a gateway before it has something to audit."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from gateway.cli.gateway_client import GATEWAY
from gateway.demo.prompts import varied_prompts
from gateway.errors import GatewayError
from gateway.features.trying.server import Server

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
    """Send the prompts and count their outcomes: "" for an answer, else the reason. Raises GatewayError if the first
    request fails.
    """
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
