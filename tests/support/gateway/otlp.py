"""Exports of spans and log records as OTLP/HTTP has them in JSON."""

import time
from typing import Any


def span(attributes: dict[str, Any], *, span_id: str = "b7ad6b7169203331", **given: Any) -> dict[str, Any]:
    """An export request with one span, as JSON."""
    now = time.time_ns()
    one = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": span_id,
        "startTimeUnixNano": str(now - 10**9),
        "endTimeUnixNano": str(now),
        "attributes": [{"key": key, "value": any_value(value)} for key, value in attributes.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [one | given]}]}]}


def any_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": any_value(one)} for key, one in value.items()]}}
        case list():
            return {"arrayValue": {"values": [any_value(one) for one in value]}}
    return {"stringValue": value}


def log(name: str, body: Any, *, span_id: str = "b7ad6b7169203331", at: int | None = None) -> dict[str, Any]:
    one = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": span_id,
        "timeUnixNano": str(time.time_ns() if at is None else at),
        "eventName": name,
        "body": any_value(body),
    }
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [one]}]}]}
