"""Policies on live requests: what goes to the upstream, what is said and counted, and that nothing else changes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.errors import ConfigError
from gateway.features.mitigation.mitigation import mitigation_of
from gateway.proxy.body import RequestBody
from gateway.proxy.data_planes import DataPlanes
from gateway.proxy.headers import RequestHead
from tests.support.integration.relaying import Gateway, RememberingTap, config_for, relaying
from tests.support.integration.scripted_upstream import raw, reply

CHAT = "/v1/chat/completions"
BODY = b'{"model": "m",  "messages": [{"role": "user", "content": "Hello"}]}'
TREATED = BODY.replace(b'"Hello"', b'"please do not rely on stereotypes.\\nHello"')
HEADER = "x-biasgate-mitigation"
EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
)
REQUEST = b"POST %b HTTP/1.1\r\nhost: x\r\nx-request-id: r\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"


async def asked(gateway: Gateway, body: bytes = BODY, headers: Mapping[str, str] | None = None) -> httpx.Response:
    async with gateway.http() as http:
        return await http.post(CHAT, content=body, headers=headers)


def policy(**keys: Any) -> dict[str, Any]:
    return {"mitigation": [{"name": "p", "instruction": "abstract", **keys}]}


async def test_a_treated_request() -> None:
    """The upstream gets the sentence, the client a header, the counter one more, and the copy both arms' question."""
    tap = RememberingTap(samples=True)
    async with relaying(reply(b"{}"), tap=tap, **policy()) as run:
        answer = await asked(run.gateway)
        await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "instruction", "added")]
    assert run.upstream.requests[-1].body == TREATED
    assert answer.headers[HEADER] == "policy=p; arm=treated; instruction=abstract"
    (copy,) = tap.offered
    assert (copy.mitigation, copy.arm, copy.instruction) == ("p", "treated", "please do not rely on stereotypes.")
    assert copy.treated_share == 1.0
    assert copy.request_body == BODY
    assert tap.decisions[0]["body"] == BODY


async def test_the_control_arm() -> None:
    """Its request goes on unchanged, and its header and copy say which arm it is."""
    tap = RememberingTap(samples=True)
    async with relaying(raw(EVENTS), tap=tap, **policy(share=0)) as run:
        answer = await asked(run.gateway)
        await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "instruction", "held_back")]
    assert run.upstream.requests[-1].body == BODY
    assert answer.headers[HEADER] == "policy=p; arm=control; instruction=held_back"
    assert (tap.offered[0].mitigation, tap.offered[0].arm, tap.offered[0].instruction) == ("p", "control", None)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", EVENTS], ids=["whole", "stream"])
async def test_requests_that_no_policy_covers_keep_every_byte(answer: bytes) -> None:
    """Beside a policy for another route, one that exempts, or none, upstream and client see the very same bytes."""
    seen = set()
    for sections in ({}, policy(match={"route": "/v1/messages"}), policy(instruction="none")):
        async with relaying(raw(answer), **sections) as run:
            back = await run.gateway.exchange(REQUEST % (CHAT.encode(), len(BODY), BODY))
            sent = run.upstream.requests[-1]
            headers = [(name, value) for name, value in sent.headers if name != "host"]
            seen.add((back, sent.method, sent.target, tuple(headers), sent.body))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"model":"m","messages":[{"role":"user","content":[]}]}', {}),
        (b"\x1f\x8b\x08\x00", {"content-encoding": "gzip"}),
        (b"--x\r\n\r\n--x--", {"content-type": "multipart/form-data; boundary=x"}),
        (b"", {}),
    ],
    ids=["no text", "gzip", "multipart", "empty"],
)
@pytest.mark.parametrize("choice", ["pass", "refuse"])
async def test_what_cannot_carry_a_sentence(body: bytes, headers: dict[str, str], choice: str) -> None:
    """It is passed as it is or refused, as the policy says; either way the header and the counter tell."""
    async with relaying(reply(b"{}"), **policy(on_timeout=choice)) as run:
        answer = await asked(run.gateway, body, headers)
        await run.gateway.ended()
        outcome = {"pass": "unsupported", "refuse": "refused"}[choice]
        assert run.gateway.stats.mitigations == [("p", "instruction", outcome)]
    assert answer.headers[HEADER] == f"policy=p; arm=treated; instruction={outcome}"
    if choice == "pass":
        assert run.upstream.requests[-1].body == body
    else:
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "mitigation_impossible"
        assert not [one for one in run.upstream.requests if one.method == "POST"]


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + BODY,
        BODY.decode().encode("utf-16"),
        b'{"model":"m","x":NaN,"messages":[{"role":"user","content":"Hello"}]}',
        b'{"model":"m","x":' + b"[" * 3_000 + b"]" * 3_000 + b',"messages":[{"role":"user","content":"Hello"}]}',
        b"{" + b'"x":0,' * 1_001 + BODY[1:],
    ],
    ids=["byte order mark", "UTF-16", "NaN", "deep", "many members"],
)
async def test_odd_json_is_no_way_around(body: bytes) -> None:
    """What only a more lenient reader would understand is refused with a 400, whatever the policy says of failures."""
    async with relaying(reply(b"{}"), **policy()) as run:
        answer = await asked(run.gateway, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_body")


async def test_no_header_of_a_client_chooses() -> None:
    """Neither its request id nor any header of the gateway moves a request to the other arm or out of the policy."""
    async with relaying(reply(b"{}"), **policy()) as run:
        for name, value in {
            "x-biasgate-audit": "off",
            "x-biasgate-priority": "audit",
            "x-biasgate-probe": "mark",
            "x-biasgate-mitigation": "arm=control",
            "x-request-id": "chosen",
            "content-type": "text/plain",
        }.items():
            await asked(run.gateway, headers={name: value})
            assert b"stereotypes" in run.upstream.requests[-1].body
            assert run.upstream.requests[-1].header(HEADER) is None


async def test_all_turns_of_a_conversation_have_one_arm() -> None:
    """Each of 25 conversations keeps one arm, both arms occur, and the client's request id shows no conversation."""
    tap = RememberingTap(samples=True)
    config = policy(share=0.5)
    async with relaying(default=reply(b"{}"), tap=tap, **config) as run:
        arms: list[set[str]] = []
        for number in range(25):
            messages = [{"role": "user", "content": f"Question {number}"}]
            seen = set()
            for _ in range(4):
                answer = await run.http.post(CHAT, json={"model": "m", "messages": messages})
                seen.add(answer.headers[HEADER].split("; ")[1])
                assert len(answer.headers["x-request-id"]) == 32
                messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]
            arms.append(seen)
        await run.gateway.ended(100)
    assert all(len(seen) == 1 for seen in arms)
    assert {*arms[0]}.union(*arms) == {"arm=treated", "arm=control"}
    units = [copy.id[-16:] for copy in tap.offered]
    assert [len(set(units[start : start + 4])) for start in range(0, 100, 4)] == [1] * 25
    assert (len(set(units)), len({copy.id for copy in tap.offered})) == (25, 100)
    assert {copy.policy_version[0] for copy in tap.offered if copy.policy_version} == {"u"}
    assert [one["exchange_id"] for one in tap.decisions] == [copy.id for copy in tap.offered]


async def test_a_reload_takes_policies_over(tmp_path: Path) -> None:
    """With the text that its file holds by then; a file that is gone leaves everything as it was."""
    said = tmp_path / "said.txt"
    said.write_text("Be fair.")
    async with relaying(default=reply(b"{}")) as run:
        planes = DataPlanes(run.gateway.plane)
        planes.treat_by(partial(mitigation_of, secret=b"secret"))
        config = config_for(run.upstream, **policy(instruction=str(said)))
        for text in ("Be fair.", "Be kind."):
            said.write_text(text)
            await planes.replace(config)
            assert planes.current.mitigation is not None
            treatment = planes.current.mitigation.treatment(
                method=b"POST", path=CHAT.encode(), key=None, model="m", head=RequestHead([]), content=BODY
            )
            assert treatment is not None
            sent = treatment.apply(RequestBody(BODY))
            assert isinstance(sent, bytes)
            assert text.encode() in sent
        in_force = planes.current
        said.unlink()
        with pytest.raises(ConfigError, match="neither a file"):
            await planes.replace(config)
        assert planes.current is in_force
        await planes.stop()
