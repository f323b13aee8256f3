"""Computes views of stored runs (items, comparisons, gates, costs) in a process of its own, for a limited time."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from gateway.config.schema import Config
from gateway.reading.process import Encoded, call_apart
from gateway.reading.run_forms import CostWanted, Gate, GateWanted, ItemsPage, ItemsWanted

T = TypeVar("T")

ITEMS_SECONDS = 60.0
COSTS_SECONDS = 120.0
"""Seconds for all suites at once on a busy machine; an idle machine needs ten."""
COMPARISON_SECONDS = 300.0
NICENESS = 5
"""Niceness of the process that makes them."""

_VIEWS = anyio.CapacityLimiter(1)
_COMPARISONS = anyio.CapacityLimiter(1)


async def items(config: Config, query: ItemsWanted) -> Encoded[ItemsPage]:
    """Return replies of a run. Raises NotFoundError, ConflictError; StoreError when it takes too long."""
    return Encoded(await apart(ITEMS_SECONDS, "the items of this run", _VIEWS, _items, config, query), ItemsPage)


async def compared(config: Config, id_a: str, id_b: str) -> tuple[bytes, bytes]:
    """Two runs compared, as JSON and as a page. Raises as `items`."""
    what = "comparing these runs"
    return await apart(COMPARISON_SECONDS, what, _COMPARISONS, _compared, config, id_a, id_b)


async def gate(config: Config, query: GateWanted) -> Encoded[Gate]:
    """Return which requirements a run meets. Raises as `items`; RequestError for a wrong requirement."""
    return Encoded(await apart(ITEMS_SECONDS, "this gate", _VIEWS, _gate, config, query), Gate)


async def costs(config: Config, query: CostWanted) -> bytes:
    """Costs as JSON. Raises as `items`."""
    return await apart(COSTS_SECONDS, "the cost of these runs", _VIEWS, _costs, config, query)


async def apart(
    seconds: float, what: str, limiter: anyio.CapacityLimiter, work: Callable[..., T], *arguments: object
) -> T:
    """Return what `work` returns in a process of its own. Raises StoreError as `items`."""
    hint = ", or waited for others: try again later"
    return await call_apart(work, *arguments, what=what, seconds=seconds, hint=hint, limiter=limiter)


def _items(config: Config, query: ItemsWanted) -> bytes:
    from gateway.reading import run_items

    return yielding(run_items.page(config, query))


def _compared(config: Config, id_a: str, id_b: str) -> tuple[bytes, bytes]:
    from gateway.reading import benchmark_views

    return yielding(benchmark_views.compared(config, id_a, id_b))


def _gate(config: Config, query: GateWanted) -> bytes:
    from gateway.reading import benchmark_views

    return yielding(benchmark_views.judged(config, query))


def _costs(config: Config, query: CostWanted) -> bytes:
    from gateway.reading import benchmark_views

    return yielding(benchmark_views.costs(config, query))


def yielding(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this process, which leaves the processor to live requests."""
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return asyncio.run(coroutine)
