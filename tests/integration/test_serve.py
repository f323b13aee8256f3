"""The serve commands as real processes: ready, relaying, drained, restarted, and clear about what is wrong."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import httpx

from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import children_of, command, is_alive, serving, write_config

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETIONS = "/v1/chat/completions"


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while is_alive(pid):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def test_serve_restarts_a_dead_auditor_and_stops_the_gateway_first(tmp_path: Path) -> None:
    """A killed auditor comes back while the gateway goes on serving; at the end all processes are gone."""
    async with scripted_upstream(default=reply(b"{}")) as upstream:
        config = write_config(tmp_path, upstream.base_url, "[auditors.embedding]\nenabled = false\n")
        async with serving("serve", "--config", str(config)) as running, running.http() as http:
            await running.line("auditor is ready")
            [auditor] = children_of(running.process.pid)["auditor"]
            os.kill(auditor, signal.SIGKILL)
            await running.line("auditor is ready", count=2)
            answer = await http.post(COMPLETIONS, json=CHAT)
            suites = await published_suites(http)
            children = children_of(running.process.pid)
            running.process.send_signal(signal.SIGTERM)

            assert await running.exit_code() == 0
            assert answer.status_code == 200
            assert "stereoset" in suites
            assert children["auditor"] != [auditor]
            assert not [pid for pids in children.values() for pid in pids if is_alive(pid)]


async def published_suites(http: httpx.AsyncClient) -> list[str]:
    """Waits until an auditor has reported."""
    async with asyncio.timeout(20):
        while (answer := await http.get("/suites")).status_code == 503:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    return [suite["name"] for suite in answer.json()]


async def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """When the parent is killed outright, its workers and its writer notice and end by themselves."""
    async with scripted_upstream() as upstream:
        config = write_config(tmp_path, upstream.base_url)
        async with serving("gateway", "--config", str(config), "--workers", "2") as running:
            children = children_of(running.process.pid)
            running.process.kill()
            await running.exit_code()
            for pids in children.values():
                for pid in pids:
                    await gone(pid)

            assert {verb: len(pids) for verb, pids in children.items()} == {"gateway": 2, "writer": 1}


async def refusal(*arguments: str, cwd: Path) -> str:
    """The one line with which a command refuses to start."""
    async with command(*arguments, cwd=cwd) as running:
        code = await running.exit_code()
        await asyncio.sleep(0.05)
    assert code == 2, running.lines
    assert len(running.lines) == 1, running.lines
    return running.lines[0]


async def test_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    """A port that is taken, the auditor's too, is named with the remedy before anything starts, exit code 2."""
    config = write_config(tmp_path, "http://127.0.0.1:9")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = await refusal("serve", "--config", str(config), "--port", port, cwd=tmp_path)
        config.write_text(config.read_text().replace("auditor_metrics_port = 0", f"auditor_metrics_port = {port}"))
        of_auditor = await refusal("serve", "--config", str(config), "--port", "0", cwd=tmp_path)

    assert line == f"biasgate: port {port} on 127.0.0.1 is in use: choose another with --port"
    assert of_auditor.startswith(f"biasgate: the auditor's metrics cannot listen on 127.0.0.1:{port}: ")
