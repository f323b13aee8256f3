"""The upstream of every measurement: a fixed reply of about 300 bytes, from nginx, or from asyncio without nginx."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.processes import free_port, running

MODEL = "bench"
REPLY = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 1700000000,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "A reply."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 16, "completion_tokens": 4, "total_tokens": 20},
        "system_fingerprint": "fixed",
    }
)
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "bench"}]})

NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  {http}
}}
"""

FIXED = """
server {{
  listen 127.0.0.1:{port}; client_max_body_size 20m;
  location = /v1/models {{ return 200 '{models}'; }}
  location = /health {{ return 200 ''; }}
  location / {{ return 200 '{reply}'; }}
}}
"""


def nginx_argv(home: Path, http: str) -> list[str]:
    """Writes a configuration with this `http` block and returns the command that runs it."""
    (home / "nginx.conf").write_text(NGINX.format(home=home, http=http))
    return ["nginx", "-p", str(home), "-e", str(home / "error.log"), "-c", str(home / "nginx.conf")]


@contextlib.contextmanager
def fixed_upstream(home: Path, pinned: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Runs the upstream until the block ends; yields its base URL and what it is."""
    port = free_port()
    if shutil.which("nginx"):
        argv, kind = nginx_argv(home, FIXED.format(port=port, models=MODELS, reply=REPLY)), "nginx"
    else:
        argv, kind = [sys.executable, "-m", "tools.bench.fixed_reply", str(port)], "asyncio"
    url = f"http://127.0.0.1:{port}"
    with running([*pinned, *argv], ready_url=f"{url}/health", log=home / "upstream.log"):
        yield url, kind
