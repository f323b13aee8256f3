"""The Grafana dashboards as tests see them: their panels, and their expressions as Grafana sends them."""

import json
import re
from pathlib import Path
from typing import Any

NAMES = ("gateway", "live_bias", "audits")
GRAFANA = Path(__file__).parents[2] / "grafana"


def dashboard(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GRAFANA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def panels() -> list[tuple[str, dict[str, Any]]]:
    """Every panel with the name of its dashboard."""
    return [(name, panel) for name in NAMES for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def filled(expression: str, rate_interval: str = "5m") -> str:
    """The expression with everything chosen in every drop-down."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", rate_interval))
