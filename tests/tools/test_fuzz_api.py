"""The control plane answers whatever its own OpenAPI allows, and much that it does not, as its OpenAPI says."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.processes import BIASGATE, free_port, running

EXAMPLES = int(os.environ.get("FUZZ_API_EXAMPLES", "4"))
"""Of each operation; docs/evidence/reliability.md quotes a longer run."""
DRAWN = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ADMIN = {"authorization": "Bearer key-of-the-admin"}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPEN_PATHS = {"/livez", "/readyz", "/metrics"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real gateway and auditor with an admin key, in front of the simulator. Nothing may leave a traceback."""
    home, port, upstream = tmp_path_factory.mktemp("api"), free_port(), free_port()
    config = home / "biasgate.toml"
    config.write_text(
        f'[server]\nadmin_key_env = "API_KEY"\nauditor_metrics_port = 0\n[store]\nurl = "sqlite:///{home}/biasgate.db"\n'
        f'[[upstreams]]\nname = "u"\nbase_url = "http://127.0.0.1:{upstream}"\n[auditors.embedding]\nenabled = false\n'
    )
    simulate = [*BIASGATE, "simulate", "--port", str(upstream)]
    serve = [*BIASGATE, "serve", "--config", str(config), "--port", str(port)]
    url, environ = f"http://127.0.0.1:{port}", {"API_KEY": "key-of-the-admin", "BIASGATE_HOME": str(home / "cache")}
    with (
        running(simulate, ready_url=f"http://127.0.0.1:{upstream}/health", log=home / "simulator.log"),
        running(serve, ready_url=f"{url}/readyz", log=home / "log", environ=environ, within_seconds=60),
    ):
        yield url
    assert "Traceback" not in (home / "log").read_text()


def operations(gateway: str) -> list[schemathesis.APIOperation[Any, Any, Any, Any]]:
    """Every operation of the OpenAPI that the gateway itself serves."""
    schema = schemathesis.openapi.from_url(f"{gateway}/schema/openapi.json", headers=ADMIN)
    found = list(schema.get_all_operations())
    assert [one.err() for one in found if not isinstance(one, Ok)] == []
    return [one.ok() for one in found if isinstance(one, Ok)]


@pytest.mark.timeout(600)
def test_every_operation(gateway: str) -> None:
    """No operation fails on its server's side, and each answer is one that the OpenAPI announces."""
    faults: dict[str, str] = {}
    for operation in operations(gateway):

        @DRAWN
        @given(case=operation.as_strategy())
        def attempt(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(base_url=gateway, headers=ADMIN, checks=CHECKS, timeout=20)

        try:
            attempt()
        except FailureGroup as exc:
            faults[operation.label] = str(exc)
    assert not faults, "\n\n".join(f"{label}: {fault}" for label, fault in faults.items())


def test_no_key_no_entrance(gateway: str) -> None:
    """Every operation that is not open says 401 without the admin key, before it reads anything; /ingest is closed."""
    for operation in operations(gateway):
        if operation.path in OPEN_PATHS or operation.path.startswith(("/console", "/ingest")):
            continue

        @settings(DRAWN, max_examples=1)
        @given(case=operation.as_strategy())
        def attempt(case: schemathesis.Case[Any]) -> None:
            assert case.call(base_url=gateway, timeout=20).status_code == 401

        attempt()
