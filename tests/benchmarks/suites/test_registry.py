"""The registry: names, the nearest of a misspelt one, and no suite that is a special case."""

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.errors import BenchmarkError
from benchmarks.suites import registry

ROOT = Path(benchmarks.__file__).parent


def test_no_suite_is_a_special_case() -> None:
    """No module outside the suites names a suite, but for the listed uses; all others ask the registry."""
    quoted = re.compile(rf"""["']({"|".join(registry.SUITES)})["']""")
    gateway = ROOT.parent / "gateway"
    auditor = (
        gateway / "features" / "decisions" / "auditor.py",
        gateway / "features" / "canary" / "request.py",
        gateway / "features" / "planning" / "unit_costs.py",
    )
    about_suites = (
        gateway / "demo" / "real.py",
        gateway / "features" / "measuring" / "measured_choices.py",
        ROOT / "published" / "tables.py",
        gateway / "features" / "lab" / "judge" / "planted_texts.py",
        ROOT / "run" / "qualifications.py",
        gateway / "console" / "alarms.py",
    )
    apart = (ROOT / "suites", ROOT / "simulator" / "planted", *auditor, *about_suites)
    modules = [path for root in (ROOT, gateway, ROOT.parent / "auditors") for path in root.rglob("*.py")]

    named = [path for path in modules if quoted.search(path.read_text(encoding="utf-8"))]
    assert [path for path in named if not any(path.is_relative_to(folder) for folder in apart)] == []


def test_unknown_data_set_gets_the_nearest() -> None:
    """A misspelt data set is answered with the known one."""
    with pytest.raises(BenchmarkError, match='did you mean "stereoset"'):
        registry.source("sterioset")


def test_catalogue_says_what_is_there(tmp_path: Path) -> None:
    """Without data the catalogue still lists every suite, and that its data is absent."""
    infos = registry.catalogue(tmp_path)

    assert [info.name for info in infos] == sorted(registry.SUITES)
    assert {info.data for info in infos if info.name in registry.datasets()} == {"absent"}
