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


@pytest.mark.parametrize("name", ["Authorization", "x_api_key", "prompt", "messages", "request_body"])
def test_secrets_and_served_text_are_masked(name: str) -> None:
    """A field named like a key or like served text never reaches the log, whoever put it there."""
    assert "s3cret words" not in json.dumps(written(**{name: "s3cret words"}))


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
