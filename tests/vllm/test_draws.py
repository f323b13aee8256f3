"""Several samples of an item in one request: a real vLLM draws them, and they are different replies."""

from collections import defaultdict

from benchmarks.run.client import open_client
from benchmarks.run.runner import RunOptions, prepare, run_plan
from tests.support.benchmarks.scripted import MemoryLog
from tests.vllm.conftest import MODEL

ITEMS, SAMPLES = 6, 8


async def test_eight_samples_in_one_request(vllm_server: str) -> None:
    """Six items of eight samples: six requests and the probe, 48 replies, those to one item not all alike."""
    plan = prepare(
        RunOptions(suite="stereoset", model=MODEL, data="embedded", limit=ITEMS, samples=SAMPLES, concurrency=64)
    )
    completer = open_client(vllm_server)
    try:
        result = await run_plan(plan, completer=completer, log=(log := MemoryLog()))
    finally:
        await completer.aclose()
    texts = defaultdict[str, set[str | None]](set)
    for reply in log.replies:
        texts[reply.item_id].add(reply.text)
    assert len(log.replies) == ITEMS * SAMPLES
    assert not any(reply.error for reply in log.replies)
    assert result.provenance.requests == len(plan.items) + 1
    assert all(len(different) > 1 for different in texts.values())
