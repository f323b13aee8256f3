"""Suite runs against an engine in this process: what a run over HTTP does, without the wire."""

import asyncio

import msgspec

from auditors.types import Completion, CompletionRequest, Estimate
from benchmarks.run.runner import Plan, ask
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.openai_requests import ChatRequest
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.protocol import Observation
from tests.support.benchmarks.scripted import MemoryLog


class EngineCompleter:
    """Asks an engine in this process: the same requests as over HTTP."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def complete(self, request: CompletionRequest) -> Completion:
        body = {
            "messages": msgspec.to_builtins(list(request.messages)),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        reply = self._engine.answer(msgspec.convert(body, ChatRequest).to_asked("simulated")).generated[0]
        return Completion(text=reply.text, finish_reason=reply.finish_reason, fingerprint=self._engine.fingerprint)

    async def aclose(self) -> None: ...


def cells(plan: Plan, engine: Engine) -> dict[CellKey, Cell]:
    """Every number of one run by its name, before its interval."""
    replies = asyncio.run(ask(plan, completer=EngineCompleter(engine), log=MemoryLog()))
    items = {item.item_id: item for item in plan.items}
    observations = [Observation(items[item_id], reply) for (item_id, _), reply in replies.items()]
    return {cell.key: cell for cell in plan.suite.cells(observations, protocol=plan.options.protocol)}


def estimates(plan: Plan, engine: Engine) -> dict[CellKey, Estimate]:
    """Every number of one run by its name."""
    return {key: estimate(cell, seed=plan.options.seed) for key, cell in cells(plan, engine).items()}


def holds(found: Estimate, value: float | None) -> bool:
    """Whether the interval holds a value. Fails where there is no value or no interval."""
    assert value is not None, found
    assert found.lower is not None, found
    assert found.upper is not None, found
    return found.lower <= value <= found.upper
