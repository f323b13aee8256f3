"""What the relay relies on in uvicorn 0.54: when this fails after an upgrade, read gateway/proxy/protocol.py first."""

import inspect

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server, ServerState


def test_version() -> None:
    """The minor version that the seam was read in."""
    assert uvicorn.__version__.startswith("0.54.")


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("__init__", ["self", "config", "server_state", "app_state", "_loop"]),
        ("connection_lost", ["self", "exc"]),
        ("data_received", ["self", "data"]),
        ("on_message_begin", ["self"]),
        ("on_url", ["self", "url"]),
        ("on_header", ["self", "name", "value"]),
        ("on_headers_complete", ["self"]),
        ("on_body", ["self", "body"]),
        ("on_message_complete", ["self"]),
        ("on_response_complete", ["self"]),
        ("_start_asgi_task", ["self", "cycle", "app"]),
        ("_unset_keepalive_if_required", ["self"]),
        ("shutdown", ["self"]),
        ("pause_writing", ["self"]),
        ("resume_writing", ["self"]),
    ],
)
def test_methods(method: str, parameters: list[str]) -> None:
    """Methods that are overridden or called exist with the same parameters."""
    assert list(inspect.signature(getattr(HttpToolsProtocol, method)).parameters) == parameters


@pytest.mark.parametrize(
    ("method", "fragments"),
    [
        ("__init__", ["self.pipeline: deque", "self.cycle", "self.flow", "self.parser", "self.loop = "]),
        (
            "on_message_begin",
            ["self.url = b", "self.headers = []", '"headers": self.headers', "self.expect_100_continue"],
        ),
        ("on_headers_complete", ["existing_cycle.response_complete", "self.pipeline.appendleft((self.cycle, app))"]),
        ("on_response_complete", ["cycle, app = self.pipeline.pop()", "self._start_asgi_task(cycle, app)"]),
        ("shutdown", ["self.cycle is None or self.cycle.response_complete", "self.cycle.keep_alive = False"]),
        ("connection_lost", ["self.connections.discard(self)", "self.cycle is not None"]),
    ],
)
def test_what_the_methods_do(method: str, fragments: list[str]) -> None:
    """The relay stands in for a cycle in exactly these places."""
    source = inspect.getsource(getattr(HttpToolsProtocol, method))

    assert [fragment for fragment in fragments if fragment not in source] == []


def test_shutdown_waits_for_connections() -> None:
    """Draining rests on the server waiting until every connection is closed."""
    assert "while self.server_state.connections" in inspect.getsource(Server._wait_tasks_to_complete)
    assert hasattr(ServerState(), "connections")
    assert {"pause_reading", "resume_reading"} <= set(vars(FlowControl))
