"""The check of import circles, on packages made for it."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / ".ci" / "import_circles.py"


def check(directory: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, CHECK, "made"], cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "text",
    [
        "import made.a",
        "from made.a import A",
        "from made import a",
        "from . import a",
        "from .a import A",
        "def f():\n    from made.a import A",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.a import A",
    ],
)
def test_circle(tmp_path: Path, text: str) -> None:
    """A circle fails the check by its names, however and wherever its modules import each other."""
    ran = check(tmp_path, {"made/__init__.py": "", "made/a.py": "import made.b", "made/b.py": text})

    assert ran.returncode == 1
    assert ran.stdout in ("made.a -> made.b -> made.a\n", "made.b -> made.a -> made.b\n")


def test_no_circle(tmp_path: Path) -> None:
    """Modules that share one below, and a package that offers its own modules' names, are no circle."""
    files = {
        "made/__init__.py": "from made.b import B\nfrom made.c import C",
        "made/a.py": "from made.b import B\nfrom made import C",
        "made/b.py": "import ast\nfrom made.d import D",
        "made/c.py": "from made.d import D\nimport missing",
        "made/d.py": "from pathlib import Path",
    }
    ran = check(tmp_path, files)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
