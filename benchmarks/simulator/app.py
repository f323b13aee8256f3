"""The simulator as an ASGI application: one table of routes, errors in vLLM's shape."""

from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.simulator import (
    anthropic_messages,
    control,
    decision_endpoints,
    openai_endpoints,
    tokenizer_endpoints,
)
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.asgi import Call, ClientGone, Receive, Scope, Send
from benchmarks.simulator.engine import Engine, UnknownModelError
from benchmarks.simulator.known_items import known_items
from benchmarks.simulator.openai_replies import error
from benchmarks.simulator.openai_requests import BadRequestError
from benchmarks.simulator.profile import Profile

Handler = Callable[[Engine, Call], Awaitable[None]]

ROUTES: dict[str, dict[str, Handler]] = {
    "/v1/chat/completions": {"POST": openai_endpoints.chat},
    "/v1/chat/completions/batch": {"POST": openai_endpoints.chat_batch},
    "/v1/completions": {"POST": openai_endpoints.completions},
    "/v1/embeddings": {"POST": openai_endpoints.embeddings},
    "/v1/messages": {"POST": anthropic_messages.messages},
    "/v1/messages/count_tokens": {"POST": anthropic_messages.count_tokens},
    "/v1/systemone": {"POST": decision_endpoints.system_one},
    "/v1/decisions": {"POST": decision_endpoints.decisions},
    "/tokenize": {"POST": tokenizer_endpoints.tokenize},
    "/detokenize": {"POST": tokenizer_endpoints.detokenize},
    "/v1/models": {"GET": control.models},
    "/health": {"GET": control.health},
    "/version": {"GET": control.version},
    "/metrics": {"GET": control.metrics},
    "/simulator/drift": {"POST": control.drift},
    "/simulator/profile": {"GET": control.profile},
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


def create_simulator(profile: Profile, seed: int = 0) -> Simulator:
    """A simulated model server; the same profile and seed give the same replies to the same requests.

    Raises: ProfileError when the profile names benchmark data that cannot be read.
    """
    return Simulator(Engine(profile, seed, AnswerKey(known_items(profile.data_dir))))


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
