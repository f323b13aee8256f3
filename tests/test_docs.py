"""The documentation names what there is: keys with their defaults, metrics, auditors, suites, links."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.registry import AUDITORS
from benchmarks.registry import SUITES
from gateway import config
from tests.test_deploy import exported_families, family, script

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
SECTIONS: dict[str, type[config.Section]] = {
    "[server]": config.ServerConfig,
    "[store]": config.StoreConfig,
    "[[upstreams]]": config.UpstreamConfig,
    "[upstreams.timeouts]": config.TimeoutsConfig,
    "[upstreams.ejection]": config.EjectionConfig,
    "[[keys]]": config.KeyConfig,
    "[sampling]": config.SamplingConfig,
    "[auditors.judge], [auditors.embedding], [auditors.refusal]": config.AuditorConfig,
    "[auditors.affinity], [auditors.counterfactual]": config.ProbingAuditorConfig,
    "[drift]": config.DriftConfig,
    "[audits]": config.AuditsConfig,
    "[[audits.schedules]]": config.ScheduleConfig,
    "[telemetry]": config.TelemetryConfig,
}
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks" / "cards").glob("*.md")])


def section_table(title: str) -> dict[str, str]:
    """Key to default cell, of the table under a heading."""
    part = OPERATIONS.split(f"\n### {title}\n", 1)[1].split("\n### ")[0].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", part, re.MULTILINE))


def default_cell(field: msgspec.structs.FieldInfo) -> str:
    """How operations.md writes a field's default."""
    if field.required:
        return "required"
    default: Any = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if default is None:
        return "none"
    if isinstance(default, msgspec.Struct):
        return "see below"
    return f"`{json.dumps(default)}`"


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_is_documented_with_its_default(title: str) -> None:
    """The section's table lists exactly the keys there are, each with the default that holds."""
    fields = {field.name: default_cell(field) for field in msgspec.structs.fields(SECTIONS[title])}
    assert section_table(title) == fields


def test_every_section_is_documented() -> None:
    """No configuration struct is missing from this test's list."""
    structs = {kind for kind in vars(config).values() if isinstance(kind, type) and issubclass(kind, config.Section)}
    assert structs - {config.Section, config.Config, config.AuditorsConfig} == set(SECTIONS.values())
    auditors = [(f"[auditors.{field.name}]", field.type) for field in msgspec.structs.fields(config.AuditorsConfig)]
    for kind in {kind for _, kind in auditors}:
        assert SECTIONS[", ".join(name for name, its in auditors if its is kind)] is kind


def test_every_metric_is_documented() -> None:
    """The metrics table lists exactly the families that are exported."""
    listed = re.findall(r"^\| `(biasgate_\w+)` \|", OPERATIONS, re.MULTILINE)
    assert {family(name) for name in listed} == exported_families()
    assert len(listed) == len(set(listed))


def test_every_auditor_is_documented() -> None:
    """Each auditor has its section, which links its module."""
    page = (DOCS / "auditors.md").read_text(encoding="utf-8")
    for name, kind in AUDITORS.items():
        part = page.split(f"\n## {name}\n", 1)[1].split("\n## ")[0]
        assert kind.__module__.replace(".", "/") + ".py" in part


def test_every_suite_is_in_the_readme() -> None:
    """The README's table links each suite's card and test."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in SUITES:
        assert f"benchmarks/cards/{name}.md" in readme
        assert f"tests/benchmarks/test_{name}.py" in readme


def test_readme_tree_is_up_to_date() -> None:
    """The README's tree names every module, by the first words of its docstring; docs/tree.py writes it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == script(DOCS / "tree.py").updated(readme)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that exists."""
    text = page.read_text(encoding="utf-8")
    targets = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_decisions_have_every_part() -> None:
    """Each ADR says status, context, decision, consequences and evidence."""
    for page in (DOCS / "adr").glob("0*.md"):
        parts = re.findall(r"^\*\*(\w+)[.*]", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Status", "Context", "Decision", "Consequences", "Evidence"], page.name


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    """File, title and index agree on every number from 1 on."""
    pages = sorted((DOCS / "adr").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in pages]
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for number, (page, title) in enumerate(zip(pages, titles, strict=True), 1):
        name = title.removeprefix(f"# {number}. ")
        assert f"{number}. [{name}]({page.name})" in index, page.name


def test_every_dependency_has_its_reason() -> None:
    """Each distribution in pyproject.toml is named in the ADR on dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=~ ;]", requirement)[0].lower() for requirement in wanted}
    decision = (DOCS / "adr" / "0004-dependencies.md").read_text(encoding="utf-8").lower()
    assert sorted(name for name in names if name not in decision) == []


def test_every_test_has_a_sentence() -> None:
    """Each test function's docstring is one line that states a behaviour."""
    silent = [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
