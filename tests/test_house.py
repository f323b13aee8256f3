"""The figures of .ci/house.py, on a checkout made for the test."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / ".ci" / "house.py"
FILES = {
    "README.md": "Read by nobody.\n",
    "CHANGELOG.md": "Four words stand here.\n",
    "docs/use.md": "The console shows alarms.\n",
    "docs/evidence/speed.md": "Ten.\n",
    "biasgate/__init__.py": "",
    "gateway/__init__.py": "",
    "gateway/store/__init__.py": "",
    "gateway/store/tables.py": '"""Tables of the store."""\nimport gateway.features.canary.feature\n',
    "gateway/store/rows.py": "import gateway.store.tables\n",
    "gateway/features/canary/feature.py": "LIMIT = 3\n",
    "auditors/judge.py": '"""What a judge says."""\nfound = 1\n\n\ndef judge(text):\n    return text\n',
    "benchmarks/run.py": "import auditors.judge\n",
    "tests/test_all.py": "def test_all():\n    assert True\n",
}


def measure(directory: Path, files: dict[str, str]) -> tuple[int, dict[str, float]]:
    """Return the exit code and the figures of a checkout with these files."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    subprocess.run(["git", "add", "."], cwd=directory, check=True)
    ran = subprocess.run([sys.executable, HOUSE], cwd=directory, capture_output=True, text=True, check=False)
    figures = re.findall(r"^(?:ok|OVER) +(\w+) +([\d.,]+)", ran.stdout, re.MULTILINE)
    return ran.returncode, {name: float(value.replace(",", "")) for name, value in figures}


def test_figures(tmp_path: Path) -> None:
    """Each figure counts what its name says, and names beyond their limit fail the check."""
    code, figures = measure(tmp_path, FILES)

    assert figures == {
        "product_lines": 11,
        "core_lines": 10,
        "test_lines": 2,
        "rooms_in_cycles": 0,
        "imports_of_optional_folders": 1,
        "large_folders": 0,
        "small_modules_with_one_importer": 1,
        "empty_names_percent": 25,
        "docstring_fragments_percent": 50,
        "docstring_idioms_per_10000_words": pytest.approx(1e4 / 8, abs=0.01),
        "page_idioms_per_10000_words": pytest.approx(1e4 / 8, abs=0.01),
        "readme_words": 3,
        "changelog_words": 4,
        "manual_words": 4,
        "evidence_words": 1,
    }
    assert code == 1


def test_cycle_of_rooms(tmp_path: Path) -> None:
    """Two folders whose files import each other's folder are a cycle, although no two modules are."""
    files = {
        "gateway/api/a.py": "import gateway.store.b\n",
        "gateway/store/b.py": "",
        "gateway/store/c.py": "import gateway.api.d\n",
        "gateway/api/d.py": "",
    }
    _, figures = measure(tmp_path, FILES | files)

    assert figures["rooms_in_cycles"] == 2
