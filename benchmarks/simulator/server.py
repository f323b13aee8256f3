"""The simulator as an ASGI application with one table of routes, and under uvicorn on a bound socket."""

import socket
from collections.abc import Awaitable, Callable

import msgspec
import uvicorn

from benchmarks.simulator import endpoints, openai_endpoints
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.asgi import Call, ClientGone, Receive, Scope, Send
from benchmarks.simulator.engine import Engine, UnknownModelError
from benchmarks.simulator.loading import known_items
from benchmarks.simulator.openai_replies import error
from benchmarks.simulator.openai_requests import BadRequestError
from benchmarks.simulator.profile import Profile

Handler = Callable[[Engine, Call], Awaitable[None]]

ROUTES: dict[str, dict[str, Handler]] = {
    "/v1/chat/completions": {"POST": openai_endpoints.chat},
    "/v1/chat/completions/batch": {"POST": openai_endpoints.chat_batch},
    "/v1/completions": {"POST": openai_endpoints.completions},
    "/v1/embeddings": {"POST": openai_endpoints.embeddings},
    "/v1/systemone": {"POST": endpoints.system_one},
    "/v1/decisions": {"POST": endpoints.decisions},
    "/tokenize": {"POST": endpoints.tokenize},
    "/detokenize": {"POST": endpoints.detokenize},
    "/v1/models": {"GET": endpoints.models},
    "/health": {"GET": endpoints.health},
    "/version": {"GET": endpoints.version},
    "/metrics": {"GET": endpoints.metrics},
    "/simulator/drift": {"POST": endpoints.drift},
    "/simulator/profile": {"GET": endpoints.profile},
}


class Simulator:
    """The ASGI callable. `engine` is open to tests that ask without HTTP."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(Call(scope, receive, send))
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    async def _answer(self, call: Call) -> None:
        methods = ROUTES.get(call.path, {})
        handler = methods.get(call.method)
        if handler is None:
            status, detail = (405, "Method Not Allowed") if methods else (404, "Not Found")
            await call.json({"detail": detail}, status)
            return
        try:
            await handler(self.engine, call)
        except (msgspec.ValidationError, msgspec.DecodeError) as exc:
            await call.json(error(400, str(exc), "Bad Request"), 400)
        except BadRequestError as exc:
            await call.json(error(400, str(exc), "BadRequestError", exc.param), 400)
        except UnknownModelError as exc:
            message = f"The model `{exc}` does not exist."
            await call.json(error(404, message, "NotFoundError", "model"), 404)
        except ClientGone:
            return


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


KEEP_ALIVE_SECONDS = 5
"""Seconds as in vLLM: a client that keeps connections longer meets a closed connection."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only on sockets that say they are TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def make_server(profile: Profile, seed: int) -> uvicorn.Server:
    config = uvicorn.Config(
        Simulator(Engine(profile, seed, AnswerKey(known_items(profile.data_dir)))),
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def serve_simulator(
    profile: Profile, seed: int, host: str, port: int, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serves until SIGINT or SIGTERM; `on_ready` gets the base URL. Raises OSError (port taken), ProfileError."""
    with listen(host, port) as bound:
        server = make_server(profile, seed)
        bound.listen(2048)
        if on_ready is not None:
            on_ready(base_url(bound))
        server.run(sockets=[bound])


def base_url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
