"""The models of `.ci/real-models`, served by llama.cpp's server for as long as a block runs."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import free_port, running

ROOT = Path(__file__).parents[2]


def fetch_models() -> dict[str, Path]:
    """Return the GGUF file of each model by its name; downloads what is missing."""
    printed = subprocess.run([ROOT / ".ci" / "real-models"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: Path(place) for name, place in (line.split(" ", 1) for line in printed.splitlines())}


@contextlib.contextmanager
def serving(model: Path, log: Path, *options: str, threads: int = 1) -> Iterator[str]:
    """Base URL, without /v1, of a server that runs as long as the block; the model has the name of its file."""
    port = free_port()
    argv = ["nice", "-n", "10", sys.executable, "-m", "gateway.demo.llama_server", str(model), "--port", str(port)]
    argv += ["--name", model.stem, "--threads", str(threads), *options]
    url = f"http://127.0.0.1:{port}"
    with running(argv, ready_url=f"{url}/health", log=log, within_seconds=120):
        yield url
