"""biasgate as somebody installs it: a wheel made of the source distribution, in an environment of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "tests", "*-out", "runs")


def built(directory: Path) -> Path:
    """Build the wheel offline from the source distribution of a copy, as builds leave files among the sources."""
    source, dist = directory / "source", directory / "dist"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCE, symlinks=True)
    made = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    (wheel,) = dist.glob("*.whl")
    return wheel


def installed(wheel: Path, directory: Path) -> Path:
    """Return the script of an environment with the wheel, which precedes the packages installed here."""
    environment = directory / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin/biasgate"


def run(
    script: Path, *arguments: str, cwd: Path, pythonpath: str | None = None, timeout: float = 300
) -> "subprocess.CompletedProcess[str]":
    """Runs it in a directory, with this PYTHONPATH or none, and no setting of another biasgate."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("BIASGATE_", "PYTHON"))}
    environ |= {"PYTHONPATH": pythonpath} if pythonpath is not None else {}
    return subprocess.run(
        [script, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=timeout
    )
