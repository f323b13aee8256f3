"""Every suite has what a suite must have."""

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.errors import BenchmarkError
from benchmarks.suites import registry
from benchmarks.suites.protocol import Suite

ROOT = Path(benchmarks.__file__).parent
TESTS = Path(__file__).parent


@pytest.mark.parametrize("suite", registry.SUITES.values(), ids=list(registry.SUITES))
class TestEverySuite:
    """Walks SUITES."""

    def test_card(self, suite: Suite) -> None:
        """There is a data card with version, licence, both hashes, deviations, criticism and a content warning."""
        card = (ROOT / "suites" / suite.name / "card.md").read_text(encoding="utf-8")

        assert f"version {suite.version}" in card
        assert suite.licence in card
        for digest in suite.sha256.values():
            assert digest in card
        for heading in ("Source", "Metrics", "Deviations", "Known criticism", "Changelog"):
            assert f"\n## {heading}" in card
        assert "Content warning" in card

    def test_test(self, suite: Suite) -> None:
        """There is a test file of its own."""
        assert (TESTS / f"test_{suite.name}.py").is_file()

    def test_hashes_and_licence(self, suite: Suite) -> None:
        """Every kind of data is pinned by a sha256, canonical data by hand at least by what was fetched."""
        is_unpinned = suite.source is not None and not suite.source.content_sha256
        assert suite.sha256.keys() | ({"canonical"} if is_unpinned else set()) == suite.n_items.keys()
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in suite.sha256.values())
        assert suite.licence
        if suite.source is not None:
            assert suite.source.name == suite.name
            assert suite.source.licence == suite.licence
            assert suite.source.content_sha256 == suite.sha256.get("canonical", "")

    def test_embedded_items_are_the_pinned_ones(self, suite: Suite) -> None:
        """The built-in items load, have their pinned hash and number, and ids that differ."""
        dataset = suite.load("embedded")
        items = list(suite.items(dataset, protocol=suite.protocols[0], seed=0))

        assert dataset.sha256 == suite.sha256["embedded"]
        assert len(items) == len({item.item_id for item in items}) == suite.n_items["embedded"]
        assert {item.axis for item in items} - {"default"} == set(suite.axes)

    def test_reader_is_told(self, suite: Suite) -> None:
        """Every metric has a reading, and the report can say what the suite does not show."""
        assert set(suite.scales) == set(suite.metrics)
        assert len(suite.does_not_show) > 100

    def test_default_protocol_comes_first(self, suite: Suite) -> None:
        """`corrected` is offered and is the default."""
        assert suite.protocols[0] == "corrected"


def test_no_suite_is_a_special_case() -> None:
    """Outside the suites and their planted answers, nothing names one: all is asked of what is registered.

    An auditor of live traffic has the name of a suite; canaries and unit costs name that auditor. What papers print is
    of suites, and a page leads from a live metric to one that measures the like.
    """
    quoted = re.compile(rf"""["']({"|".join(registry.SUITES)})["']""")
    gateway = ROOT.parent / "gateway"
    auditor = (
        ROOT.parent / "auditors" / "decision.py",
        gateway / "features" / "canary" / "gaps.py",
        gateway / "features" / "planning" / "unit_costs.py",
    )
    about_suites = (ROOT / "papers" / "tables.py", gateway / "console" / "matching_suite.py")
    apart = (ROOT / "suites", ROOT / "simulator" / "planted", *auditor, *about_suites)
    modules = [path for root in (ROOT, gateway, ROOT.parent / "auditors") for path in root.rglob("*.py")]

    named = [path for path in modules if quoted.search(path.read_text(encoding="utf-8"))]
    assert [path for path in named if not any(path.is_relative_to(folder) for folder in apart)] == []


def test_names_are_keys() -> None:
    """A suite is listed under its own name."""
    assert all(name == suite.name for name, suite in registry.SUITES.items())


def test_unknown_data_set_gets_the_nearest() -> None:
    """A misspelt data set is answered with the known one."""
    with pytest.raises(BenchmarkError, match='did you mean "stereoset"'):
        registry.source("sterioset")


def test_catalogue_says_what_is_there(tmp_path: Path) -> None:
    """Without data the catalogue still lists every suite, and that its data is absent."""
    infos = registry.catalogue(tmp_path)

    assert [info.name for info in infos] == sorted(registry.SUITES)
    assert {info.data for info in infos if info.name in registry.datasets()} == {"absent"}
