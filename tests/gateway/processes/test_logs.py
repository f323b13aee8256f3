import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.children import logs
from gateway.config.loading import validate
from gateway.config.schema import TelemetryConfig


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Leaves the process's logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def written(**fields: object) -> dict[str, object]:
    stream = io.StringIO()
    logs.configure(TelemetryConfig(), role="gateway", stream=stream)
    structlog.get_logger("test").info("something happened", **fields)
    line: dict[str, object] = json.loads(stream.getvalue())
    return line


def test_json_when_not_a_terminal() -> None:
    """Away from a terminal each event is one JSON object with time, level, role and fields."""
    line = written(upstream="a")

    assert line["event"] == "something happened"
    assert (line["level"], line["role"], line["upstream"]) == ("info", "gateway", "a")
    assert "timestamp" in line


@pytest.mark.parametrize("name", ["Authorization", "x_api_key", "prompt", "messages", "request_body"])
def test_secrets_and_served_text_are_masked(name: str) -> None:
    """A field named like a key or like served text never reaches the log, whoever put it there."""
    assert "s3cret words" not in json.dumps(written(**{name: "s3cret words"}))


def test_level_is_honoured() -> None:
    """Events below the configured level are not written."""
    stream = io.StringIO()
    logs.configure(TelemetryConfig(log_level="warning"), role="auditor", stream=stream)
    structlog.get_logger("test").info("quiet")
    logging.getLogger("library").warning("loud")

    assert "quiet" not in stream.getvalue()
    assert json.loads(stream.getvalue())["event"] == "loud"


def test_console_format_is_for_people() -> None:
    """Format "console" writes a readable line, not JSON."""
    stream = io.StringIO()
    logs.configure(TelemetryConfig(log_format="console"), role="gateway", stream=stream)
    structlog.get_logger("test").info("started", url="http://x")

    assert "started" in stream.getvalue()
    assert "url=http://x" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_tracebacks_show_no_values(log_format: str) -> None:
    """A logged exception shows where it happened, not what the variables held."""
    stream = io.StringIO()
    logs.configure(validate({"telemetry": {"log_format": log_format}}).telemetry, role="gateway", stream=stream)
    api_key = "s3cret"
    try:
        len(api_key) / 0
    except ZeroDivisionError:
        structlog.get_logger("test").exception("failed")

    assert "ZeroDivisionError" in stream.getvalue()
    assert "s3cret" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_addresses_are_masked_wherever_they_stand(log_format: str) -> None:
    """In the event, in a field, in what a library says, and in a traceback."""
    stream = io.StringIO()
    logs.configure(validate({"telemetry": {"log_format": log_format}}).telemetry, role="gateway", stream=stream)
    address = "https://u:s3cret@host/v1?api_key=s3cret"
    logging.getLogger("library").warning("cannot reach %s", address)
    try:
        raise ValueError(address)
    except ValueError:
        structlog.get_logger("test").exception(f"at {address}", url=address)

    assert "s3cret" not in stream.getvalue()
    assert stream.getvalue().count("https://***@host/v1?api_key=***") == 4
