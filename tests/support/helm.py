"""Helm, where it is installed or where .ci/helm has put it."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from tests.support.required import lacking

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "biasgate"
IMAGES = ("--set", "image.gateway.repository=registry/gateway", "--set", "image.auditor.repository=registry/auditor")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it to whatever end."""
    path = shutil.which("helm") or _made()
    if path is None:
        lacking("helm is not installed (.ci/helm puts it into a folder of its own)", "HELM")
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)


def _made() -> str | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return next((str(path) for path in (cache / "biasgate").glob("helm-*/helm")), None)


@cache
def rendered(values: str | None = None, *settings: str, chart: Path = CHART, release: str = "biasgate") -> list[Any]:
    """The resources of the chart with a file of values beside it, and with these settings, hooks included."""
    files = ("-f", str(chart / values)) if values else ()
    done = helm("template", release, str(chart), "--namespace", "llm", *files, *IMAGES, *settings)
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def of_kind(resources: list[Any], kind: str) -> dict[str, Any]:
    """Those of a kind, by name."""
    return {one["metadata"]["name"]: one for one in resources if one["kind"] == kind}
