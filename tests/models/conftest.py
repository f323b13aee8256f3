"""Small open models served by llama.cpp, and a real gateway in front of one of them. All live for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models import fetch_models, serving
from tests.support.processes import BIASGATE, free_port, running
from tests.support.vllm.wire import Recorder, recording

HERE = Path(__file__).parent
RELAYED = ["/tokenize", "/detokenize", "/version", "/health", "/props"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the models, and the first test waits for their download."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.models)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def models() -> dict[str, Path]:
    """GGUF files by name."""
    return fetch_models()


@pytest.fixture(scope="session")
def server(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL, without /v1, of the smaller model."""
    with serving(models["smollm2-135m-instruct"], tmp_path_factory.mktemp("smollm2") / "log", "--parallel", "1") as url:
        yield url


@pytest.fixture(scope="session")
def recorder(server: str) -> Iterator[Recorder]:
    """Stands between the gateway and the server, and keeps every byte."""
    with recording(server) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def gateway_url(recorder: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway in front of that server, which records nothing."""
    home = tmp_path_factory.mktemp("gateway")
    port = free_port()
    config = home / "biasgate.toml"
    config.write_text(f"""
        [server]
        relayed_paths = {RELAYED}

        [store]
        url = "sqlite:///{home}/biasgate.db"

        [[upstreams]]
        name = "llama-cpp"
        base_url = "{recorder.origin}"

        [sampling]
        rate = 0.0
    """)
    url = f"http://127.0.0.1:{port}"
    argv = [*BIASGATE, "gateway", "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with running(argv, ready_url=f"{url}/readyz", log=home / "log", environ={"BIASGATE_HOME": str(home / "cache")}):
        yield url
