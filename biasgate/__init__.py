"""The public Python API, `__all__`: imported at first use, as the command first looks at what Python would import."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from biasgate.api import Run, audit, audit_async, compare, gate, load_run, metrics, score, suites, to_frame
    from biasgate.client import Client, GatewayError

__all__ = [
    "Client",
    "GatewayError",
    "Run",
    "audit",
    "audit_async",
    "compare",
    "gate",
    "load_run",
    "metrics",
    "score",
    "suites",
    "to_frame",
]

_OF_THE_CLIENT = ("Client", "GatewayError")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'biasgate' has no attribute {name!r}")
    return getattr(importlib.import_module("biasgate.client" if name in _OF_THE_CLIENT else "biasgate.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
