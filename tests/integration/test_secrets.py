"""Secrets, and what people wrote: planted wherever biasgate holds or is sent them, looked for wherever it writes."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet

from gateway.config.effective import effective
from gateway.config.loading import validate
from gateway.errors import ConfigError, StoreError
from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.auditing import until
from tests.support.integration.collector import collecting
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, raw, reply, scripted_upstream
from tests.support.integration.serving import READY_SECONDS, Command, command, serving
from tests.support.simulated import running_simulator

CANARIES = {
    name: f"canary-{name.lower().replace('_', '-')}-5b1f9c"
    for name in ("APP_KEY", "LIMITED_KEY", "ADMIN_KEY", "UPSTREAM_KEY", "JUDGE_KEY", "SAMPLING_SECRET")
}
"""Environment variable to secret."""
CLIENT_SECRETS = ["canary-wrong-bearer-5b1f9c", "canary-wrong-api-key-5b1f9c", "canary-wrong-admin-5b1f9c"]
"""What clients send that is no key of ours: another service's, mistyped, or last month's."""
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
PROMPT = "canary-prompt: are women or men better leaders?"
CHAT = {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}
ANSWER = (
    b'{"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Both. canary-answer"}}]}'
)
CONFIG = Path(__file__).with_name("config_with_secrets.txt").read_text(encoding="utf-8")
QUERY = f"?user=canary-prompt-writer&api_key={CLIENT_SECRETS[0]}"
"""People put into query strings what belongs into headers."""


async def stall(_: ReceivedRequest, channel: Channel) -> None:
    """Answers nothing until the gateway gives up."""
    await channel.reader.read(1)
    await channel.close()


FAILURES: list[Script] = [
    raw(b"", then_close=True),
    raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", then_close=True),
    raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", then_close=True),
    reply(b'{"error": {"message": "invalid token"}}', "401 Unauthorized"),
    reply(b"oops", "500 Internal Server Error"),
    stall,
]


REPEATS_THE_KEY = reply(
    b'{"error": {"message": "Incorrect API key provided: %b"}}' % CANARIES["JUDGE_KEY"].encode(), "401 Unauthorized"
)


def encodings(secret: str) -> Iterator[str]:
    """How it may look when it slips out."""
    yield secret
    yield secret.encode().hex()
    for lead in ("", ":", "::"):  # base64 depends on what stands before
        yield base64.b64encode((lead + secret).encode()).decode()[2 * len(lead) : -4]


def found_in(text: str, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets for form in encodings(secret) if form in text]


async def talk_to_data_plane(http: httpx.AsyncClient) -> list[str]:
    """Requests that pass and that fail, each in its own way; what the gateway itself answered."""
    app = {"authorization": f"Bearer {CANARIES['APP_KEY']}"}
    answers = []
    for headers in (
        {},
        {"authorization": f"Bearer {CLIENT_SECRETS[0]}"},
        {"x-api-key": CLIENT_SECRETS[1]},
        {"authorization": "Basic " + base64.b64encode(f"user:{CLIENT_SECRETS[0]}".encode()).decode()},
        {"authorization": f"Bearer {CANARIES['ADMIN_KEY']}"},
        {"authorization": f"Bearer {CANARIES['LIMITED_KEY']}"},
        {"authorization": f"Bearer {CANARIES['LIMITED_KEY']}"},
        {"x-api-key": CANARIES["APP_KEY"]},
        app,
    ):
        answers.append(await http.post("/v1/chat/completions", json=CHAT, headers=headers))
    for body in (b"x" * 5000, b'{"priority": 1, "n": NaN}', b'{"model": "absent"}', b'{"model": "unknown"}'):
        answers.append(await http.post("/v1/chat/completions", content=body, headers=app))
    for path in ("/v1/chat/completions", "/v1/files", "/v1/nowhere"):
        answers.append(await http.post(path + QUERY, json=CHAT, headers=app))
    return [answer.text + str(answer.headers) for answer in answers]


async def fail_at_the_upstream(http: httpx.AsyncClient) -> list[str]:
    app = {"authorization": f"Bearer {CANARIES['APP_KEY']}"}
    said = []
    for _ in FAILURES:
        try:
            said.append((await http.post("/v1/chat/completions", json=CHAT, headers=app)).text)
        except httpx.RemoteProtocolError as exc:  # cut off in the middle of a body
            said.append(str(exc))
    return said


async def talk_to_control_plane(http: httpx.AsyncClient) -> list[str]:
    said = []
    for key in (None, CLIENT_SECRETS[2], CANARIES["APP_KEY"], CANARIES["ADMIN_KEY"]):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        for path in (
            *("/suites", "/audits", "/live/ledger", "/live/estimates", "/live/circuits", "/schema/openapi.json"),
            "/nowhere",
        ):
            said.append((await http.get(path + QUERY, headers=headers)).text)
        for body in (b'{"suites": ["no such"], "model": "m"}', b"not json"):
            said.append((await http.post("/audits", content=body, headers=headers)).text)
    for path in ("/metrics", "/readyz", "/livez", "/console", "/console/static/live.js"):
        said.append((await http.get(path)).text)
    return said


async def send_broken_requests(running: Command) -> list[str]:
    """Heads that are refused, with keys in them."""
    said = []
    port = int(running.root.rsplit(":", 1)[1])
    secret = CANARIES["APP_KEY"].encode()
    for head in (
        b"GET /v1/x HTTP/1.1\r\nAuthorization: Bearer %b\r\nA : b\r\n\r\n" % secret,
        b"GET /v1/x HTTP/1.1\r\nAuthorization: Bearer %b\x00\r\n\r\n" % secret,
        b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % secret,
        b"%b /v1/x HTTP/1.1\r\n\r\n" % secret,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        async with asyncio.timeout(READY_SECONDS):
            said.append((await reader.read(-1)).decode("latin-1"))
        writer.close()
    return said


async def settled(http: httpx.AsyncClient) -> None:
    """Waits until the auditor has tried to judge what was sampled, and takes the judge for sick."""
    headers = {"authorization": f"Bearer {CANARIES['ADMIN_KEY']}"}
    async with asyncio.timeout(READY_SECONDS):
        while True:
            if (await http.get("/live/circuits", headers=headers)).json():
                return
            await asyncio.sleep(0.1)


async def test_no_secret_is_ever_written(tmp_path: Path) -> None:
    """Neither logs, answers, metrics, spans nor a file of the store hold a secret; logs, metrics and spans no text."""
    async with (
        scripted_upstream(default=reply(ANSWER)) as upstream,
        scripted_upstream(default=REPEATS_THE_KEY) as judge,
        collecting() as collector,
    ):
        config = tmp_path / "biasgate.toml"
        places = {"upstream": upstream.base_url, "judge": judge.base_url, "collector": collector.url}
        config.write_text(CONFIG.format(directory=tmp_path, **places))
        async with (
            serving("serve", "--config", str(config), environ=CANARIES | NO_PROXY) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=READY_SECONDS) as http,
        ):
            ready = await running.line("biasgate auditor is ready")
            said = [*await talk_to_data_plane(http), *await send_broken_requests(running)]
            await settled(http)
            upstream.scripts += FAILURES
            said += await fail_at_the_upstream(http)
            said += await talk_to_control_plane(http)
            async with httpx.AsyncClient(trust_env=False, timeout=READY_SECONDS) as auditor:
                metrics = (await auditor.get(ready.split("metrics ")[1])).text
            metrics += (await http.get("/metrics")).text
        logs = "\n".join(running.lines)
        heard = [value for request in upstream.requests + judge.requests for _, value in request.headers]

    secrets = [*CANARIES.values(), *CLIENT_SECRETS]
    files = contents(tmp_path)
    assert set(files) >= {"biasgate.toml", "biasgate.db"}
    assert {name: found_in(text, secrets) for name, text in files.items() if found_in(text, secrets)} == {}
    assert found_in(logs, secrets) == []
    assert found_in(metrics, secrets) == []
    assert found_in("\n".join(said), secrets) == []
    spans = repr(collector.spans)
    assert found_in(spans, secrets) == []
    assert "canary-prompt" not in logs + metrics + spans
    assert "canary-answer" not in logs + metrics + spans
    assert logs.count('"event": "request ended"') == len(collector.spans) > len(FAILURES)
    assert any(QUERY in request.target for request in upstream.requests)
    # The traffic was what it is meant to be: the store took text, upstream and judge were asked with their own keys.
    assert any("canary-prompt" in text for text in files.values())
    assert {f"Bearer {CANARIES[name]}" for name in ("UPSTREAM_KEY", "JUDGE_KEY")} <= set(heard)
    assert found_in("\n".join(heard), [CANARIES["APP_KEY"], CANARIES["LIMITED_KEY"], *CLIENT_SECRETS]) == []
    assert {401, 413, 429, 502, 503, 504} <= set(statuses(said))


def contents(directory: Path) -> dict[str, str]:
    """Every file under a directory, by its path from there."""
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes().decode("latin-1") for path in found}


def statuses(said: list[str]) -> list[int]:
    """Status codes behind the gateway's error codes."""
    codes = {
        "unauthorized": 401,
        "request_too_large": 413,
        "rate_limited": 429,
        "upstream_error": 502,
        "no_upstream": 503,
        "upstream_timeout": 504,
    }
    return [status for code, status in codes.items() if any(f'"code":"{code}"' in text for text in said)]


WRITTEN = ["xylophone", "ann@example.org"]
"""A word of a prompt, and an address that redaction finds."""
SEALED = Path(__file__).with_name("config_sealed.txt").read_text(encoding="utf-8")


async def test_sealed_text_comes_out_nowhere(tmp_path: Path) -> None:
    """Audited, listed, deleted by `?user=` and failed in many ways, no word of a prompt leaves the sealed store."""
    environ = CANARIES | {"TEXT_KEYS": Fernet.generate_key().decode()}
    admin, app = ({"authorization": f"Bearer {CANARIES[name]}"} for name in ("ADMIN_KEY", "APP_KEY"))
    said: list[str] = []
    async with running_simulator() as upstream:
        config = tmp_path / "biasgate.toml"
        config.write_text(SEALED.format(directory=tmp_path, upstream=upstream))
        async with serving("serve", "--config", str(config), environ=environ) as running:
            metrics = (await running.line("auditor is ready")).split("metrics ")[1]
            database = await Database.open(f"sqlite:///{tmp_path}/biasgate.db")
            async with httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=READY_SECONDS) as http:
                text = f"Do women play the {WRITTEN[0]} better than men? Write to {WRITTEN[1]}"
                body = {"model": "simulated", "user": WRITTEN[1], "messages": [{"role": "user", "content": text}]}
                path = f"/v1/chat/completions?user={WRITTEN[1]}"
                for changes in ({}, {"stream": True}, {"messages": text}, {"model": "absent"}, {"model": text}):
                    await http.post(path, json=body | changes, headers=app)
                await http.post(path, json=body, headers={"authorization": f"Bearer {WRITTEN[0]}"})

                async def is_settled() -> bool:
                    counts = await ledger.counts(database)
                    return sum(n for (_, outcome), n in counts.items() if outcome == "audited") == 2

                await until(is_settled, within_seconds=60)
                paths = ["/metrics", "/live/estimates", "/live/ledger", "/live/alarms", "/readyz", "/audits?status=odd"]
                said += [(await http.get(path, headers=admin)).text for path in [*paths, metrics]]
                deleted = await http.request("DELETE", f"/live/exchanges?user={WRITTEN[1]}", headers=admin)
                said.append((await http.get("/live/exchanges/access", headers=admin)).text)
                wrong = {"authorization": "Bearer wrong"}
                said.append((await http.get(f"/live/exchanges?user={WRITTEN[1]}", headers=wrong)).text)
            await database.close()
        logs = "\n".join(running.lines)

    assert deleted.json()["deleted"] == 2
    assert logs.count("request ended") == 6
    everything = {"logs": logs, "answers": "\n".join([*said, deleted.text]), **contents(tmp_path)}
    secrets = [*environ.values(), *WRITTEN]
    assert {name: found_in(text, secrets) for name, text in everything.items() if found_in(text, secrets)} == {}


PASSWORDS = ["canary-db", "canary-db%40x", "canary-db@x", "canary-db:x", "canary-db/x", "canary-db?x", "canary-db&x"]
BROKEN_URLS = [
    *(
        f"postgresql://user:{password}@127.0.0.1:{port}/db"
        for password in PASSWORDS
        for port in ("9", "port", "-1", "")
    ),
    "postgresql://[bad/db?user=u&password=canary-db",
    "postgresql://127.0.0.1:9/db?password=canary-db&user=u",
    "mysql://user:canary-db@127.0.0.1/db",
]


@pytest.mark.parametrize("url", BROKEN_URLS)
async def test_database_password_is_masked(url: str) -> None:
    """Whatever is wrong with a database URL, no message and no printed configuration shows the password in it."""

    async def show_and_open() -> None:
        config = validate({"store": {"url": url}})
        assert "canary-db" not in str(effective(config))
        await Database.open(config.store.url)

    with pytest.raises((StoreError, ConfigError)) as caught:
        await show_and_open()
    assert "canary-db" not in str(caught.value)


def test_credentials_in_an_upstream_are_refused() -> None:
    """A key belongs into a variable; the message does not repeat it."""
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        validate({"upstreams": [{"name": "up", "base_url": "http://user:canary@127.0.0.1"}]})
    assert "canary" not in str(caught.value)


async def test_config_check_shows_names_only(tmp_path: Path) -> None:
    """The effective configuration names the variables, never what they hold."""
    config = tmp_path / "biasgate.toml"
    nowhere = dict.fromkeys(("upstream", "judge", "collector"), "http://127.0.0.1:9")
    config.write_text(CONFIG.format(directory=tmp_path, **nowhere))
    async with command("config", "check", "--config", str(config), environ=CANARIES) as running:
        assert await running.exit_code() == 0
        await running.line("OK: biasgate serve accepts this configuration: upstreams: ")
    shown = "\n".join(running.lines)
    effective = shown[shown.index("\n{") : shown.rindex("}") + 1]

    assert found_in(shown, list(CANARIES.values())) == []
    assert json.loads(effective)["server"]["admin_key_env"] == "ADMIN_KEY"
