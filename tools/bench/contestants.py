"""What is compared: the gateway in three set-ups, and the peers, each in an environment of its own."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import free_port
from tools.bench.upstream import MODEL, nginx_argv

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "biasgate" / "bench"


class Missing(Exception):
    """A peer that this machine does not have, and why."""


class Command(NamedTuple):
    argv: list[str]
    ready_path: str
    environ: Mapping[str, str] = {}


class Contestant(NamedTuple):
    name: str
    command: Callable[[str, int, Path], Command]
    """(upstream base URL, port to listen on, empty directory) to the program to run. Raises Missing."""


def biasgate(rate: float, *, workers: int = 1) -> Callable[[str, int, Path], Command]:
    """One key to check, a store on SQLite as every start but the first finds it, this sampling rate; installed as in
    production, without any extra."""

    def command(upstream: str, port: int, home: Path) -> Command:
        env = environment(f"biasgate-{_declared()}", ["-e", str(ROOT)], "BIASGATE_BENCH_GATEWAY_ENV")
        config = home / "biasgate.toml"
        config.write_text(
            f"[server]\nport = {port}\nworkers = {workers}\n"
            f'[store]\nurl = "sqlite:///{home}/biasgate.db"\n'
            f'[[upstreams]]\nname = "bench"\nbase_url = "{upstream}"\nmax_connections = 8192\n'
            f'[[keys]]\nname = "bench"\nkey_env = "BIASGATE_BENCH_KEY"\n'
            f"[sampling]\nrate = {rate}\n"
            f'[telemetry]\nlog_level = "warning"\n'
        )
        _make_store(env, f"sqlite:///{home}/biasgate.db")
        argv = [str(env / "bin/biasgate"), "gateway", "--config", str(config)]
        return Command(argv, "/readyz", {"BIASGATE_BENCH_KEY": "bench"})

    return command


_STORE = """
import asyncio, sys
from gateway.store.database import Database

async def make():
    await (await Database.open(sys.argv[1])).close()

asyncio.run(make())
"""


def _make_store(env: Path, url: str) -> None:
    subprocess.run([str(env / "bin/python"), "-c", _STORE, url], check=True, capture_output=True)


def nginx_proxy(upstream: str, port: int, home: Path) -> Command:
    """`proxy_pass` over kept-alive connections: the floor."""
    if not shutil.which("nginx"):
        raise Missing("nginx is not installed")
    backend = upstream.removeprefix("http://")
    http = f"""
      upstream backend {{ server {backend}; keepalive 1024; keepalive_requests 1000000000; }}
      server {{
        listen 127.0.0.1:{port};
        client_max_body_size 20m; client_body_buffer_size 256k;
        location / {{ proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; }}
      }}"""
    return Command(nginx_argv(home, http), "/health")


def vllm_router(upstream: str, port: int, home: Path) -> Command:
    """The vLLM project's own router (Rust)."""
    env = environment("vllm-router", ["vllm-router==0.1.17"], "BIASGATE_BENCH_ROUTER_ENV")
    argv = [str(env / "bin/vllm-router"), "--worker-urls", upstream, "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--policy", "round_robin", "--prometheus-port", str(free_port()), "--log-level", "error"]
    return Command(argv, "/health")


def litellm(upstream: str, port: int, home: Path) -> Command:
    """LiteLLM's proxy with one worker."""
    try:
        program = subprocess.run([ROOT / ".ci/litellm"], check=True, capture_output=True, text=True).stdout.strip()
    except subprocess.CalledProcessError as exc:
        raise Missing(f"cannot be installed: {exc.stderr.strip().splitlines()[-1]}") from exc
    config = home / "litellm.yaml"
    config.write_text(
        f"model_list:\n  - model_name: {MODEL}\n    litellm_params:\n"
        f"      model: openai/{MODEL}\n      api_base: {upstream}/v1\n      api_key: none\n"
    )
    argv = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environ = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true", "LITELLM_LOG": "ERROR"}
    return Command([*argv, "--num_workers", "1"], "/health/liveliness", environ)


def environment(name: str, requirements: list[str], variable: str) -> Path:
    """A peer's virtual environment: named by a variable, else made once in the cache. Raises Missing."""
    if variable in os.environ:
        return Path(os.environ[variable])
    env = CACHE / name
    stamp = env / ".complete"
    if not stamp.is_file():
        print(f"making {env} for {' '.join(requirements)} ...", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", env], check=True, capture_output=True)
            pip = [str(env / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *requirements], check=True, capture_output=True)
        except subprocess.CalledProcessError as exc:
            raise Missing(f"cannot be installed: {exc.stderr.decode().strip().splitlines()[-1]}") from exc
        stamp.touch()
    return env


def _declared() -> str:
    """Changes with the declared dependencies, so that an environment of older ones is not used."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()[:8]


CONTESTANTS = [
    Contestant("nginx proxy_pass", nginx_proxy),
    Contestant("biasgate, no sampling", biasgate(0.0)),
    Contestant("biasgate, 1 % sampled", biasgate(0.01)),
    Contestant("vllm-router", vllm_router),
    Contestant("litellm", litellm),
]
