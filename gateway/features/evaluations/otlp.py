"""The parts that traces and evaluation events share on their way to an OpenTelemetry collector (OTLP over HTTP)."""

import importlib.util
import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from auditors.addresses import mask_url
from auditors.clients.environment import OUTGOING_HTTP
from gateway.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

EXPORT_SECONDS = 5.0
"""Longest attempt to send one batch."""

VARIABLES = OUTGOING_HTTP | {"OTEL_*"}
"""Environment variables that the exporters read; a name that ends in "*" stands for all that begin so."""

Signal = Literal["logs", "traces"]

_EXTRA_MODULES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_SERVICE = "biasgate"
_PATHS: dict[Signal, str] = {"logs": "/v1/logs", "traces": "/v1/traces"}


def require_installed(endpoint: str) -> None:
    """Raises ConfigError when the extra "otel" is not installed."""
    if not all(map(is_installed, _EXTRA_MODULES)):
        raise ConfigError(
            f'telemetry.otlp_endpoint is "{mask_url(endpoint)}", but OpenTelemetry is not installed: '
            'pip install "biasgate[otel]", or remove the key'
        )


def signal_url(endpoint: str, signal: Signal) -> str:
    """Return the address that a signal goes to; the endpoint may name the path of traces."""
    return endpoint.rstrip("/").removesuffix(_PATHS["traces"]) + _PATHS[signal]


def resource_and_scope() -> "tuple[Resource, InstrumentationScope]":
    """Return the sender: resource and scope."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    release = version(_SERVICE)
    resource = Resource.create({"service.name": _SERVICE, "service.version": release})
    return resource, InstrumentationScope(_SERVICE, release)


def session(on_answer: Callable[[int, bytes], None] | None = None) -> Any:
    """Return a session that follows no redirect. `on_answer` hears status and body of each answer."""
    import requests

    from gateway.features.evaluations.bounded_adapter import BoundedAdapter

    # The exporters log each failed attempt of each batch; here an outage is said once.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)

    def look(response: Any, *_: object, **__: object) -> None:
        if response.is_redirect:
            raise requests.exceptions.RequestException(f"{response.url} redirects, and no redirect is followed")
        if on_answer is not None:
            on_answer(response.status_code, response.content)

    opened = requests.Session()
    for scheme in ("http://", "https://"):
        opened.mount(scheme, BoundedAdapter(EXPORT_SECONDS))
    opened.hooks["response"].append(look)
    return opened


def is_installed(module: str) -> bool:
    """Return whether the module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
