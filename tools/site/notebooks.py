"""Executes the notebooks of docs/tutorials and writes their outputs: python -m tools.site.notebooks."""

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.site.hooks import ROOT

TUTORIALS = ROOT / "docs" / "tutorials"


def execute(path: Path, directory: Path) -> dict[str, Any]:
    """Return the notebook with its outputs, run in a directory. Raises nbclient's CellExecutionError."""
    from nbclient import NotebookClient

    notebook: Any = import_module("nbformat").read(path, as_version=4)
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(directory)}}).execute()
    for cell in notebook["cells"]:
        cell["metadata"].clear()
    notebook["metadata"] = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    executed: dict[str, Any] = notebook
    return executed


def main() -> None:
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as directory:
            notebook = execute(path, Path(directory))
        import_module("nbformat").write(notebook, path)


if __name__ == "__main__":
    main()
