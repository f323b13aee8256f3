"""Log set-up: one line an event, JSON for machines and colour for people. No prompt text and no key is ever logged."""

import logging
import sys
from typing import TextIO

import structlog

from auditors.addresses import mask_addresses
from auditors.text.visible import visible, visible_line
from gateway.config.schema import TelemetryConfig
from gateway.terminal.guard import unguarded

SECRET_NAMES = frozenset({"authorization", "x_api_key", "api_key", "key", "secret", "password", "token"})
TEXT_NAMES = frozenset({"prompt", "messages", "text", "body", "request_body", "response_body", "content", "completion"})


def configure(telemetry: TelemetryConfig, *, role: str, stream: TextIO | None = None) -> None:
    """Sends structlog and the standard library's loggers through one pipeline to a stream (default stderr)."""
    stream = unguarded(stream or sys.stderr)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask,
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(telemetry, stream)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(telemetry.log_level.upper())
    _quieten()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)


def mask(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Last line of defence: replace a field named like a secret or like served text, and mask every address."""
    for name in event:
        if name.lower() in SECRET_NAMES:
            event[name] = "***"
        elif name.lower() in TEXT_NAMES:
            event[name] = "(text not logged)"
        elif isinstance(event[name], str):
            event[name] = mask_addresses(event[name])
    return event


def _mask_traceback(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if isinstance(traceback := event.get("exception"), str):
        event["exception"] = mask_addresses(traceback)
    return event


def _rendering(telemetry: TelemetryConfig, stream: TextIO) -> list[structlog.typing.Processor]:
    masked: list[structlog.typing.Processor] = [structlog.processors.format_exc_info, _mask_traceback]
    if telemetry.log_format == "json" or (telemetry.log_format == "auto" and not stream.isatty()):
        return [*masked, structlog.processors.JSONRenderer()]
    # Never the pretty tracebacks: they print local variables, and with them keys and served text.
    plain = structlog.dev.plain_traceback
    return [*masked, escape, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]


def escape(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make every text of an event safe for a terminal: servers and clients have a say in many of them."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible(value) if name == "exception" else visible_line(value)
    return event


def _quieten() -> None:
    """Libraries whose "info" is about every request or every start: only their warnings matter here."""
    servers = ("uvicorn", "uvicorn.error", "uvicorn.access")
    for name in (*servers, "httpx", "httpcore", "alembic", "procrastinate", "aiosqlite"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in servers:
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
