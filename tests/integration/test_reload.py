"""SIGHUP to real processes under load: a valid file is taken over, an invalid one changes nothing, no request fails."""

import asyncio
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from gateway.store import schedules
from gateway.store.database import Database
from tests.support.integration.load import CHAT, COMPLETIONS, steady_load
from tests.support.integration.scraping import Scrape, scrape
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import Command, children_of, command, serving, write_config
from tests.support.integration.streaming import held

pytestmark = pytest.mark.long


def hang_up(running: Command) -> None:
    running.process.send_signal(signal.SIGHUP)


async def in_force(http: httpx.AsyncClient, config: str, *, workers: int) -> Scrape:
    """Waits until so many workers serve by this configuration."""
    async with asyncio.timeout(40):
        while (seen := await scrape(http)).value("biasgate_config_workers", config=config) != workers:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.1)
    return seen


def named(line: str) -> str:
    """The configuration that a log line says is in force."""
    return line.split("configuration reloaded: ")[1].split(" is in force")[0]


@pytest.mark.parametrize("workers", [1, 2])
async def test_reload_under_load_loses_no_request_and_no_count(tmp_path: Path, workers: int) -> None:
    """Another upstream takes over on kept connections without one failed request, and every request is counted once."""
    async with scripted_upstream() as first, scripted_upstream() as second:
        path = write_config(tmp_path, first.base_url)
        async with (
            serving("gateway", "--config", str(path), "--workers", str(workers)) as running,
            running.http() as http,
        ):
            async with steady_load(running.root) as load:
                await load.more(200)
                for number, upstream in enumerate((second, first, second), start=1):
                    path.write_text(
                        write_config(tmp_path, upstream.base_url).read_text().replace('"up"', f'"up{number}"')
                    )
                    hang_up(running)
                    line = await running.line("configuration reloaded", count=number)
                    await in_force(http, named(line), workers=workers)
                    await load.more(200)
            after = await settled(http, load.answered)

        assert load.failures == []
        assert set(load.upstreams) == {"up", "up1", "up2", "up3"}
        assert sum(after.totals("biasgate_requests_total", outcome="complete")) == load.answered
        assert after.value("biasgate_config_reloads_total", outcome="applied") == 3
        assert len(first.requests) + len(second.requests) == load.answered


async def settled(http: httpx.AsyncClient, requests: int) -> Scrape:
    """Waits until the workers together have told of so many requests."""
    async with asyncio.timeout(20):
        while sum((seen := await scrape(http)).totals("biasgate_requests_total")) < requests:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.1)
    return seen


async def test_invalid_file_is_refused_in_one_line_and_also_kept_from_new_workers(tmp_path: Path) -> None:
    """The line names file, value and remedy; the old configuration serves on, also in a worker started afterwards."""
    async with scripted_upstream() as upstream:
        path = write_config(tmp_path, upstream.base_url)
        good = path.read_text()
        async with serving("gateway", "--config", str(path), "--workers", "2") as running, running.http() as http:
            bad = {
                '[telemetry]\nlog_format = "quick"\n': "Invalid enum value 'quick'",
                "sampling = 3\n": "unknown key",
                '[[keys]]\nname = "k"\nkey_env = "UNSET_AT_START"\n': "UNSET_AT_START",
                '[[upstreams]]\nname = "x"\nbase_url = "http://"\n': "names no host",
            }
            for number, (extra, words) in enumerate(bad.items(), start=1):
                path.write_text(good + extra)
                hang_up(running)
                line = await running.line("not reloaded", count=number)
                assert words in line
                assert "stays in force" in line
            os.kill(children_of(running.process.pid)["gateway"][0], signal.SIGKILL)
            await running.line("is started again")
            before = await scrape(http)
            [config] = before.labels("biasgate_config_workers", "config")
            after = await in_force(http, config, workers=2)
            answer = await http.post(COMPLETIONS, json=CHAT)

            assert answer.status_code == 200
            assert after.value("biasgate_config_reloads_total", outcome="refused") == len(bad)
            assert not [line for line in running.lines if "Traceback" in line]


async def test_keys_aliases_limits_and_rates_are_taken_over(tmp_path: Path) -> None:
    """A reload changes keys, aliases, limits and rates on open connections too, and names what waits for a restart."""
    environ = {f"{name}_KEY": f"{name.lower()}-secret" for name in ("OLD", "NEW")} | {"SAME_KEY": "new-secret"}
    app_key = '[[keys]]\nname = "app"\nkey_env = "{}_KEY"\n'
    control_key = '[[server.control_keys]]\nname = "{0}"\nkey_env = "{0}_KEY"\nrole = "{1}"\n'
    limits = '[aliases]\nother-name = "m"\n[sampling]\nrate = 0.5\n'
    later = "max_body_bytes = 200\nworkers = 3\n{}" + app_key.format("NEW") + limits
    async with scripted_upstream() as upstream:

        def write(extra: str) -> None:
            path = write_config(tmp_path, upstream.base_url, extra)
            if extra.startswith("max_body"):
                path.write_text(path.read_text().replace("biasgate.db", "other.db"))

        path = write_config(tmp_path, upstream.base_url, control_key.format("OLD", "admin") + app_key.format("OLD"))
        async with serving("gateway", "--config", str(path), environ=environ) as running, running.http() as http:

            async def statuses() -> list[int]:
                answers = []
                for secret in ("old-secret", "new-secret"):
                    headers = {"authorization": f"Bearer {secret}"}
                    answers += [await http.get("/live/ledger", headers=headers)]
                    answers += [await http.request("DELETE", "/live/exchanges", headers=headers)]
                return [answer.status_code for answer in answers]

            before = await http.post(COMPLETIONS, json=CHAT, headers={"x-api-key": "old-secret"})
            opened_before = await statuses()
            write(later.format(control_key.format("NEW", "viewer")))
            hang_up(running)
            line = await running.line("configuration reloaded")
            seen = await in_force(http, named(line), workers=1)
            old = await http.post(COMPLETIONS, json=CHAT, headers={"x-api-key": "old-secret"})
            new = await http.post(COMPLETIONS, json=CHAT | {"model": "other-name"}, headers={"x-api-key": "new-secret"})
            large = await http.post(COMPLETIONS, content=b" " * 201, headers={"x-api-key": "new-secret"})
            opened_after = await statuses()
            write(later.format(control_key.format("NEW", "viewer") + control_key.format("SAME", "admin")))
            hang_up(running)
            refused = await running.line("not reloaded")

            assert [before.status_code, old.status_code, new.status_code, large.status_code] == [200, 401, 200, 413]
            assert b'"model":"m"' in upstream.requests[-1].body.replace(b" ", b"")
            assert seen.value("biasgate_sampling_rate", stratum="other") == 0.5
            assert "these keys wait for a restart: server.workers, store.url" in line
            assert not (tmp_path / "other.db").exists()
            assert opened_before == [200, 400, 401, 401]
            assert opened_after == await statuses() == [401, 401, 200, 403]
            assert 'control keys "NEW" and "SAME" have the same value' in json.loads(refused)["event"]


async def test_exchange_in_flight_keeps_the_configuration_it_was_admitted_with(tmp_path: Path) -> None:
    """A stream outlives the upstream that a reload removed; a body still being sent never takes its key upstream."""
    release = asyncio.Event()

    async def slow_body() -> None:
        writer.write(b'{"model": "m"')

    async with scripted_upstream(held(release), default=reply(b"{}")) as old, scripted_upstream() as new:
        path = write_config(tmp_path, old.base_url, '[[keys]]\nname = "app"\nkey_env = "APP_KEY"\n')
        environ = {"APP_KEY": "gateway-secret"}
        async with (
            serving("gateway", "--config", str(path), environ=environ) as running,
            running.http(authorization="Bearer gateway-secret") as http,
            http.stream("POST", COMPLETIONS, json=CHAT) as stream,
        ):
            chunks = stream.aiter_raw()
            first = await anext(chunks)
            host, port = running.root.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer gateway-secret\r\n"
                b"connection: close\r\ncontent-length: 14\r\n\r\n"
            )
            await slow_body()
            write_config(tmp_path, new.base_url)  # no keys any more: from now on credentials are the upstream's
            hang_up(running)
            async with running.http() as other:
                await in_force(other, named(await running.line("configuration reloaded")), workers=1)
                await other.post(COMPLETIONS, json=CHAT)
            writer.write(b"}")
            await reader.read()
            writer.close()
            release.set()
            rest = b"".join([chunk async for chunk in chunks])

        assert first + rest == b"data: a\n\ndata: b\n\n"
        assert len(new.requests) == 1
        assert old.requests[-1].body == b'{"model": "m"}'
        assert old.requests[-1].header("authorization") is None


async def test_serve_hands_a_reload_to_its_auditor(tmp_path: Path) -> None:
    """The auditor is ended in order and started again on the new file; the gateway beside it is not."""
    async with scripted_upstream() as upstream:
        path = write_config(tmp_path, upstream.base_url, "[auditors.embedding]\nenabled = false\n")
        async with serving("serve", "--config", str(path)) as running:
            await running.line("auditor is ready")
            before = children_of(running.process.pid)
            path.write_text(path.read_text() + "rate = 0.5\n")
            hang_up(running)
            await running.line("auditor is ready", count=2)
            after = children_of(running.process.pid)

            assert after["gateway"] == before["gateway"]
            assert after["auditor"] != before["auditor"]
            assert not [line for line in running.lines if "is started again" in line]


SCHEDULE = """
[[audits.schedules]]
name = "{name}"
cron = "0 3 * * *"
suites = ["{suite}"]
model = "m"
"""
QUIET = "[auditors.embedding]\nenabled = false\n"


async def test_auditor_alone_reloads(tmp_path: Path) -> None:
    """The auditor adopts schedules and a judge without a restart; a bad or dangling file is logged, no more."""
    path = write_config(tmp_path, "http://127.0.0.1:9", QUIET + SCHEDULE.format(name="nightly", suite="stereoset"))
    first = path.read_text()
    async with command("auditor", "--config", str(path)) as running:
        await running.line("auditor is ready")
        database = await Database.open(f"sqlite:///{tmp_path / 'biasgate.db'}")

        async def planned() -> dict[str, float]:
            return {one.name: one.next_due_at for one in await schedules.list_schedules(database)}

        before = await planned()
        path.write_text(first + SCHEDULE.format(name="second", suite="winobias"))
        hang_up(running)
        await running.line("changed: audits")
        both = await planned()
        path.write_text(first + SCHEDULE.format(name="third", suite="winobiass"))
        hang_up(running)
        await running.line("not reloaded, .*unknown suite .*winobiass")
        path.write_text(first.replace(QUIET, QUIET + '[auditors.judge]\nmodel = "j"\n'))
        hang_up(running)
        await running.line("auditor is ready", count=2)
        after = await planned()
        path.write_text(first + '[drift]\nreference = { run = "none-such" }\n')
        hang_up(running)
        await running.line("going back to the one before: .*none-such")
        await running.line("auditor is ready", count=3)
        await database.close()
        running.process.send_signal(signal.SIGTERM)

        assert await running.exit_code() == 0
    assert set(before) == {"nightly"}
    assert set(both) == {"nightly", "second"}
    assert before["nightly"] == both["nightly"] == after["nightly"]
    assert set(after) == {"nightly"}
    assert len(running._matching("auditor is ready")) == 3
    assert not [line for line in running.lines if "Traceback" in line]
