"""Finds the deployment files, in the repository or next to this module; setup.py runs it: standard library only."""

from pathlib import Path

DATA = "data"
"""Folder next to this module that a wheel carries; a checkout does not have it."""
PATTERNS = ("deploy/**/*", "grafana/*.json", "docs/runbooks/*.md", "requirements*.lock", "LICENSE")
"""Patterns of the repository's files, whose paths are kept, so that every relative path in them holds."""
PRIVATE = frozenset({"deploy/.env", "deploy/prometheus/viewer_key"})
"""Somebody's secrets, which no wheel carries; the second was asked for by earlier versions."""


def deployment_files() -> dict[str, Path]:
    """Every file by its path, relative to the folder that it is written to. Raises: FileNotFoundError without any."""
    here = Path(__file__).parent
    data = here / DATA
    files = _under(data, ("**/*",)) if data.is_dir() else in_checkout(here.parents[2])
    if not files:
        raise FileNotFoundError(f"{data} is empty")
    return files


def in_checkout(root: Path) -> dict[str, Path]:
    """Return the same from a checkout; setup.py calls this function."""
    return _under(root, PATTERNS)


def _under(root: Path, patterns: tuple[str, ...]) -> dict[str, Path]:
    files = {path.relative_to(root).as_posix(): path for pattern in patterns for path in root.glob(pattern)}
    return {name: path for name, path in sorted(files.items()) if path.is_file() and name not in PRIVATE}
