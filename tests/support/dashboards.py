"""The Grafana dashboards as tests see them: their panels, and their expressions as Grafana sends them."""

import functools
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = ("gateway", "live_bias", "audits")
GRAFANA = Path(__file__).parents[2] / "grafana"


def dashboard(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GRAFANA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def panels() -> list[tuple[str, dict[str, Any]]]:
    """Return every panel with the name of its dashboard, those in collapsed rows too."""
    listed = [(name, panel) for name in NAMES for panel in dashboard(name)["panels"]]
    return [(name, panel) for name, outer in listed for panel in outer.get("panels", [outer])]


@functools.cache
def build() -> ModuleType:
    """Return grafana/build.py as a module."""
    spec = importlib.util.spec_from_file_location("build", GRAFANA / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filled(expression: str, rate_interval: str = "5m") -> str:
    """The expression with everything chosen in every drop-down."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", rate_interval))
