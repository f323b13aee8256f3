"""The models of `.ci/real-models`, served by llama.cpp's server, or vLLM, for as long as a block runs."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import free_port, running

ROOT = Path(__file__).parents[2]


def fetch_models(*, for_vllm: bool = False) -> dict[str, Path]:
    """Return the GGUF file, or the directory for vLLM, of each model by its name; downloads what is missing."""
    argv = [str(ROOT / ".ci" / "real-models"), *(["--vllm"] if for_vllm else [])]
    printed = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    places = [(name, Path(place)) for name, place in (line.split(" ", 1) for line in printed.splitlines())]
    return {name: place for name, place in places if place.is_dir() == for_vllm}


@contextlib.contextmanager
def serving(model: Path, log: Path, *options: str, threads: int = 1) -> Iterator[str]:
    """Base URL, without /v1, of a server that runs as long as the block; the model has the name of its file."""
    port = free_port()
    argv = ["nice", "-n", "10", sys.executable, "-m", "gateway.demo.llama_server", str(model), "--port", str(port)]
    argv += ["--name", model.stem, "--threads", str(threads), *options]
    url = f"http://127.0.0.1:{port}"
    with running(argv, ready_url=f"{url}/health", log=log, within_seconds=120):
        yield url


@contextlib.contextmanager
def serving_vllm(model: Path, log: Path) -> Iterator[str]:
    """Base URL, without /v1, of a vLLM on the CPU, in single precision, that runs as long as the block."""
    port = free_port()
    environment = subprocess.run([ROOT / ".ci" / "vllm-env"], check=True, stdout=subprocess.PIPE, text=True).stdout
    argv = [f"{environment.strip()}/bin/vllm", "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--served-model-name", model.name, "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"]
    url = f"http://127.0.0.1:{port}"
    environ = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    with running(argv, ready_url=f"{url}/health", log=log, environ=environ, within_seconds=300):
        yield url
