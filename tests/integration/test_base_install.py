"""What a base install lacks is not needed: every module that only an extra brings cannot be imported here."""

import importlib.metadata as metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.integration.serving import command, serving, write_config


def base_distributions() -> set[str]:
    """Return biasgate and all that it requires without an extra."""
    waiting: list[tuple[str, frozenset[str]]] = [("biasgate", frozenset())]
    seen = set(waiting)
    for name, extras in waiting:
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for line in map(Requirement, lines):
            needed = (canonicalize_name(line.name), frozenset(line.extras))
            applies = line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in extras or {""})
            if applies and needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return {name for name, _ in seen}


async def test_gateway_and_auditor_start_without_extras(tmp_path: Path) -> None:
    """With every module absent that comes with extras alone."""
    base = base_distributions()
    absent = [
        module
        for module, names in metadata.packages_distributions().items()
        if base.isdisjoint(map(canonicalize_name, names))
    ]
    assert {"torch", "requests", "opentelemetry"} <= set(absent)
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({absent!r}))")
    config = write_config(tmp_path, "http://127.0.0.1:9", "[auditors.embedding]\nenabled = false\n")
    environ = {"PYTHONPATH": str(tmp_path)}
    async with serving("serve", "--config", str(config), environ=environ) as running:
        await running.line("biasgate auditor is ready")
    async with command("export", "--to", f"{tmp_path}/x", "--config", str(config), environ=environ) as running:
        await running.line(r'pip install "biasgate\[export\]"')
        assert await running.exit_code() == 2
