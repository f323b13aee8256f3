"""Prefix-aware routing over real sockets."""

from typing import Any

import msgspec

from gateway.config.loading import validate
from gateway.config.schema import Config
from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import ScriptedUpstream, reply, scripted_upstream

COMPLETIONS = "/v1/chat/completions"
SESSIONS = [f"session-{n}" for n in range(12)]


def hashed(*upstreams: ScriptedUpstream) -> Config:
    config = config_for(*upstreams)
    listed = [msgspec.structs.replace(one, models=["m"]) for one in config.upstreams]
    balancing = validate({"balancing": {"policy": "consistent_hash", "header": "x-session-id"}}).balancing
    return msgspec.structs.replace(config, upstreams=listed, balancing=balancing)


async def served_by(http: Any) -> dict[str, str]:
    """Session to the upstream that answered; each is asked twice and answered by the same."""
    found = {}
    for session in SESSIONS:
        names = set()
        for n in range(2):
            content = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": str(n)}]})
            answer = await http.post(COMPLETIONS, content=content, headers={"x-session-id": session})
            assert answer.status_code == 200
            names.add(answer.headers["x-biasgate-upstream"])
        assert len(names) == 1
        found[session] = names.pop()
    return found


async def test_sessions_stay_and_only_those_of_a_dead_upstream_move() -> None:
    """Each session has one upstream; when one is down its sessions go elsewhere, the others stay; the header passes."""
    async with (
        scripted_upstream(default=reply(b"a")) as first,
        scripted_upstream(default=reply(b"b")) as second,
        scripted_upstream(default=reply(b"c")) as third,
        running_gateway(hashed(first, second, third)) as gateway,
        gateway.http() as http,
    ):
        before = await served_by(http)
        assert len(set(before.values())) > 1
        seen = [request.header("x-session-id") for one in (first, second, third) for request in one.requests]
        assert sorted(filter(None, seen)) == sorted(SESSIONS * 2)
        gone = before[SESSIONS[0]]
        for one, upstream in zip((first, second, third), gateway.plane.upstreams, strict=True):
            if upstream.name == gone:
                one.is_healthy = False
                upstream.mark_down("test")
        after = await served_by(http)

    assert gone not in after.values()
    assert all(after[session] == at for session, at in before.items() if at != gone)
