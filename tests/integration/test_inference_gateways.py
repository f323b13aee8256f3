"""Requests of audits carry the headers by which an inference gateway puts them behind live ones."""

from collections import Counter

import msgspec
import pytest

from auditors.types import CompletionRequest, Message
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.clients import AuditorClients
from gateway.config.loading import validate
from gateway.errors import ConfigError
from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.store.made import exchange

OBJECTIVE = "x-llm-d-inference-objective"
HEADERS = {OBJECTIVE: "audits", "x-tier": "low"}
CHAT = b'{"model": "m", "messages": []}'
REPLY = b'{"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}'


async def test_a_clients_audit_carries_them_and_live_requests_do_not() -> None:
    """They replace a client's own of that name; a live request keeps what it may set, and no objective."""
    async with scripted_upstream() as upstream:
        config = config_for(upstream)
        listed = [msgspec.structs.replace(one, models=["m"], audit_headers=HEADERS) for one in config.upstreams]
        config = msgspec.structs.replace(config, upstreams=listed)
        async with running_gateway(config) as gateway, gateway.http() as http:
            own = {OBJECTIVE: "mine", "x-tier": "high"}
            for more in ({"x-biasgate-priority": "audit"}, {}, {"x-biasgate-priority": "audit"}):
                answer = await http.post("/v1/chat/completions", content=CHAT, headers={**own, **more})
                assert answer.status_code == 200

    seen = [[(name, request.header(name)) for name in HEADERS] for request in upstream.requests]
    audit, live = list(HEADERS.items()), [(OBJECTIVE, None), ("x-tier", "high")]
    assert seen == [audit, live, audit]


async def test_auditors_questions_carry_them() -> None:
    """What a live auditor asks of an upstream has the headers beside its mark."""
    async with scripted_upstream(default=reply(REPLY)) as upstream:
        listed = [{"name": "u", "base_url": upstream.base_url, "audit_headers": HEADERS}]
        config = validate({"upstreams": listed})
        limiters = ConcurrencyLimiters(config.audits)
        settings = config.auditors.judge
        clients = AuditorClients(config, settings, limiters, name="judge", secret=b"s" * 32, counted=Counter())
        request = CompletionRequest(model="m", messages=[Message(role="user", content="?")], max_tokens=8)
        await clients.of_exchange(exchange()).complete(request)
        await clients.aclose()
        await limiters.aclose()

    asked = [one for one in upstream.requests if one.method == "POST"]
    assert [asked[0].header(name) for name in HEADERS] == list(HEADERS.values())
    assert asked[0].header("x-biasgate-probe")


@pytest.mark.parametrize(("name", "value"), [("host", "x"), ("x-biasgate-tag", "x"), ("a b", "x"), ("x-y", "a\r\nb")])
def test_headers_that_cannot_be_sent_are_refused(name: str, value: str) -> None:
    """The configuration says which."""
    with pytest.raises(ConfigError, match=r"upstreams\.u\.audit_headers has .* cannot be sent"):
        validate({"upstreams": [{"name": "u", "base_url": "http://h", "audit_headers": {name: value}}]})
