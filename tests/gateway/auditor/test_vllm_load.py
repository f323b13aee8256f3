"""Reading how busy a server is: vLLM's own page, pages of others, and servers that do not answer."""

import pytest

from gateway.auditor.backpressure import vllm_load
from gateway.auditor.backpressure.vllm_load import LONGEST_PAGE_BYTES, Load, LoadReader, LoadUnknownError, parse_load
from tests.support.auditors.scripted import Reply, scripted_server
from tests.support.processes import free_port

PAGE = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a \\"} 7"} 2.0
vllm:num_requests_waiting{engine="1",model_name="m"} 1.0 1700000000000
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 99.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 40.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 100.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 2.5
vllm:inter_token_latency_seconds_count{engine="1",model_name="m"} 50.0
vllm:inter_token_latency_seconds_sum{engine="1",model_name="m"} 1.5
vllm:inter_token_latency_seconds_created{engine="1",model_name="m"} 1.7e+09
process_open_fds 12.0
"""


def test_engines_and_models_are_taken_together() -> None:
    """Queues and batches add up, the fullest cache counts, and families with longer names are others."""
    assert parse_load(PAGE) == Load(running=7.0, waiting=3.0, kv_usage=0.75, token_seconds=4.0, tokens=150.0)


def test_pages_without_a_queue_tell_of_no_load() -> None:
    """Pages of other servers, and numbers that cannot be; a queue alone is a load."""
    for page in (
        b"",
        b"vllm:num_requests_running 3\n",
        b"vllm:num_requests_waiting NaN\nvllm:num_requests_waiting -1\nvllm:num_requests_waiting many\n",
        b"\xff\xfe<html>not found</html>",
    ):
        assert parse_load(page) is None
    assert parse_load(b"vllm:num_requests_waiting 5\n") == Load(waiting=5.0)


async def test_reader_reads_with_the_servers_key() -> None:
    """GET /metrics of the origin."""
    async with scripted_server(lambda _: Reply(PAGE)) as server:
        reader = LoadReader(server.base_url, "k")
        assert await reader.poll() == parse_load(PAGE)
        await reader.aclose()
    assert [(one.path, one.headers["authorization"]) for one in server.asked] == [("/metrics", "Bearer k")]


@pytest.mark.parametrize(
    "reply",
    [Reply(b"", status=404), Reply(b"", status=501), Reply(b"up 1\n"), Reply(b"#" * (LONGEST_PAGE_BYTES + 1))],
    ids=["not there", "not implemented, as llama.cpp answers", "another's metrics", "endless"],
)
async def test_a_server_without_these_metrics_is_left_alone(reply: Reply) -> None:
    """It is asked once, and not again each second."""
    async with scripted_server(lambda _: reply) as server:
        reader = LoadReader(server.base_url)
        assert [await reader.poll() for _ in range(5)] == [None] * 5
        await reader.aclose()
    assert len(server.asked) == 1


async def test_no_answer_is_not_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in trouble, slow or away raises, and is asked again."""
    async with scripted_server(lambda _: Reply(b"", status=503)) as server:
        reader = LoadReader(server.base_url)
        for _ in range(2):
            with pytest.raises(LoadUnknownError, match="503"):
                await reader.poll()
        server.script = lambda _: Reply(PAGE, delay=0.5)
        monkeypatch.setattr(vllm_load, "READ_SECONDS", 0.2)
        with pytest.raises(LoadUnknownError, match="Timeout"):
            await reader.poll()
        await reader.aclose()
    gone = LoadReader(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LoadUnknownError, match="ConnectError"):
        await gone.poll()
    await gone.aclose()
