"""What others read of a canary: the webhook, and the templates for Argo Rollouts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for one call

from gateway.__main__ import OneLineParser
from gateway.config.loading import validate
from gateway.features.canary import cli as command
from gateway.features.canary import deliveries as canary_deliveries
from gateway.features.canary import store as canaries
from gateway.features.canary import webhook as module
from gateway.features.canary.comparison import Verdict
from gateway.features.canary.deliveries import Delivery
from gateway.features.canary.request import CanaryRequest, Side
from gateway.features.canary.shown import ShownCanary, ShownDelivery
from gateway.features.canary.webhook import Webhook
from gateway.store.database import Database
from tests.support.auditors.scripted import Reply, scripted_server

ARGO = Path(__file__).parents[4] / "deploy" / "argo" / "analysis-template.yaml"
HOOK = validate({"audits": {"canary_webhook_env": "CANARY_HOOK"}})


@asynccontextmanager
async def ended(directory: Path, *, is_delivered: bool = True) -> AsyncIterator[tuple[Database, str]]:
    """A store, and the id of a canary in it that has ended."""
    database = await Database.open(f"sqlite:///{directory / 'store.db'}")
    request = CanaryRequest(stable=Side(model="a"), canary=Side(model="b"))
    canary_id = await canaries.create(database, request, max_queued=1)
    assert await canaries.claim(database, canary_id)
    assert await canaries.finish(database, canary_id, "hold", ["nothing to replay"], is_delivered=is_delivered)
    yield database, canary_id
    await database.close()


async def delivery(database: Database, canary_id: str) -> Delivery:
    found = (await canaries.get(database, canary_id)).delivery
    assert found is not None
    return found


async def pass_until(webhook: Webhook, database: Database, canary_id: str, status: str) -> Delivery:
    """Call the webhook as the auditor does, until the delivery has this status."""
    async with asyncio.timeout(10):
        while (found := await delivery(database, canary_id)).status != status:
            await webhook()
            await asyncio.sleep(0.01)
    return found


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == module.__name__]


async def test_a_verdict_is_delivered_again_until_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt sends what GET shows, under the same id, and is logged; after the one that is taken none follows."""
    monkeypatch.setattr(module, "PAUSES_SECONDS", (0.01, 0.01, 0.01))
    answers = iter([Reply(b"", 500), Reply(b"", 302, {"location": "http://127.0.0.1:9/"}), Reply(b"", 204)])
    caplog.set_level("INFO")
    async with ended(tmp_path) as (database, canary_id), scripted_server(lambda _: next(answers)) as server:
        monkeypatch.setenv("CANARY_HOOK", f"{server.base_url}/hook?token=t")
        webhook = Webhook(HOOK, database, asyncio.Event())
        found = await pass_until(webhook, database, canary_id, "delivered")
        await webhook()
        shown = canaries.shown(await canaries.get(database, canary_id))
    assert (found.attempts, found.problem) == (3, None)
    assert [one.path for one in server.asked] == ["/hook"] * 3
    assert [one.headers["webhook-id"] for one in server.asked] == [canary_id] * 3
    assert server.asked[2].json | {"webhook": None} == msgspec.to_builtins(shown) | {"webhook": None}
    assert server.asked[2].headers["content-type"] == "application/json"
    first, second, third = logged(caplog)
    assert "attempt 1 of 4 failed, the next follows in 0.01 s: status 500" in first
    assert "status 302, and redirects are not followed" in second
    assert "hold was delivered with attempt 3" in third
    assert "token" not in "".join(logged(caplog))


async def test_a_verdict_that_is_never_taken_has_failed_after_the_last_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line of the log says why, without the URL, which may hold a secret; the store and GET say it too."""
    monkeypatch.setattr(module, "PAUSES_SECONDS", (0.01, 0.01))
    monkeypatch.setenv("CANARY_HOOK", "http://127.0.0.1:9/secret-path")
    async with ended(tmp_path) as (database, canary_id):
        webhook = Webhook(HOOK, database, asyncio.Event())
        found = await pass_until(webhook, database, canary_id, "failed")
        await webhook()
        shown = canaries.shown(await canaries.get(database, canary_id)).webhook

    assert (found.attempts, found.next_at) == (3, None)
    assert shown == ShownDelivery(status="failed", attempts=3, problem="Connection refused", delivered_at=None)
    assert len(logged(caplog)) == 3
    assert "attempt 3 of 3 failed, hold was not delivered: Connection refused" in logged(caplog)[-1]
    assert "secret-path" not in "".join(logged(caplog))


async def test_an_attempt_that_was_cut_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next start at once after a stop, and after a kill by whoever comes when the lease has ended."""
    silent, taken = Reply(b"", delay=30.0), Reply(b"")
    async with ended(tmp_path) as (database, canary_id), scripted_server(lambda _: silent) as server:
        monkeypatch.setenv("CANARY_HOOK", server.base_url)
        stop = asyncio.Event()
        delivering = asyncio.create_task(Webhook(HOOK, database, stop)())
        while not server.asked:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        during = await delivery(database, canary_id)
        assert await canary_deliveries.take_due(database) is None  # another auditor leaves it alone
        stop.set()
        await delivering
        after_stop = await delivery(database, canary_id)

        monkeypatch.setattr(canary_deliveries, "LEASE_SECONDS", 0.1)
        assert await canary_deliveries.take_due(database)  # and nothing more: this one was killed
        server.script = lambda _: taken
        found = await pass_until(Webhook(HOOK, database, asyncio.Event()), database, canary_id, "delivered")
    assert (during.status, during.attempts) == ("pending", 1)
    assert (after_stop.status, after_stop.attempts) == ("pending", 0)
    assert found.attempts == 2
    assert len(server.asked) == 2


async def test_a_webhook_that_answers_without_end_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status counts and its body is not read."""
    n_sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while n_sent < 50_000_000:
                writer.write(bytes(65536))
                n_sent += 65536
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with ended(tmp_path) as (database, canary_id), server:
        monkeypatch.setenv("CANARY_HOOK", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await Webhook(HOOK, database, asyncio.Event())()
        found = await delivery(database, canary_id)
    assert (found.status, found.attempts) == ("delivered", 1)
    assert n_sent < 50_000_000


def templates() -> dict[str, Any]:
    """By name the one metric of each template."""
    found = list(yaml.safe_load_all(ARGO.read_text()))
    assert {one["kind"] for one in found} == {"AnalysisTemplate"}
    assert all(len(one["spec"]["metrics"]) == 1 for one in found)
    return {one["metadata"]["name"]: one["spec"]["metrics"][0] for one in found}


def test_argo_reads_every_verdict_that_there_is() -> None:
    """Success and failure name all verdicts but the one that means to wait, and the field that is shown."""
    metric = templates()["biasgate-canary"]

    named = {one for one in get_args(Verdict) if f'"{one}"' in metric["successCondition"] + metric["failureCondition"]}
    assert named == set(get_args(Verdict)) - {"undecided"}
    assert '"promote"' in metric["successCondition"]
    assert metric["provider"]["web"]["jsonPath"] == "{$.verdict}"
    assert "verdict" in ShownCanary.__struct_fields__
    assert metric["provider"]["web"]["url"].endswith("/canaries/{{args.canary-id}}")


def test_argo_calls_the_command_as_it_is() -> None:
    """The job's arguments are ones that the command takes."""
    pod = templates()["biasgate-canary-job"]["provider"]["job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parser = OneLineParser()
    command.add_arguments(parser)

    assert container["command"] == ["biasgate"]
    assert container["args"][0] == "canary"
    read = parser.parse_args(container["args"][1:])
    assert (read.action, read.timeout, read.api_key_env) == ("wait", 14400.0, container["env"][0]["name"])
