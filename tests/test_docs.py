"""The documentation names what there is: keys with their defaults, metrics, routes, auditors, suites, citations."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.registry import AUDITORS
from benchmarks.suites.registry import SUITES
from gateway.api.feature_routes import all_routes
from gateway.api.route_access import markdown_table
from gateway.config import schema
from gateway.config.loading import load
from gateway.features.export import config as export
from gateway.features.ingest import config as ingest
from gateway.features.mitigation import config as mitigation
from tests.support.gateway.control_plane import control_plane
from tests.test_deploy import exported_families, family

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
SECTIONS: dict[str, type[schema.Section]] = {
    "[server]": schema.ServerConfig,
    "[[server.control_keys]]": schema.ControlKeyConfig,
    "[store]": schema.StoreConfig,
    "[[upstreams]]": schema.UpstreamConfig,
    "[balancing]": schema.BalancingConfig,
    "[upstreams.timeouts]": schema.TimeoutsConfig,
    "[upstreams.ejection]": schema.EjectionConfig,
    "[[keys]]": schema.KeyConfig,
    "[sampling]": schema.SamplingConfig,
    "[auditors.judge]": schema.JudgeConfig,
    "[auditors.embedding]": schema.EmbeddingConfig,
    "[auditors.refusal]": schema.AuditorConfig,
    "[auditors.affinity]": schema.ProbingAuditorConfig,
    "[auditors.counterfactual]": schema.CounterfactualConfig,
    "[auditors.decision]": schema.DecisionAuditorConfig,
    "[drift]": schema.DriftConfig,
    "[audits]": schema.AuditsConfig,
    "[[audits.schedules]]": schema.ScheduleConfig,
    "[[mitigation]]": mitigation.MitigationConfig,
    "[mitigation.match]": mitigation.MatchConfig,
    "[mitigation.query_filter]": mitigation.QueryFilterConfig,
    "[mitigation.response_filter]": mitigation.ResponseFilterConfig,
    "[ingest]": ingest.IngestConfig,
    "[export]": export.ExportConfig,
    "[telemetry]": schema.TelemetryConfig,
}
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
SPECIFICATIONS = ("protocols", "contract")
"""Pages of docs/ that code cites by section."""
MANUAL = sorted([ROOT / "README.md", *(page for page in DOCS.glob("*.md") if page.stem not in SPECIFICATIONS)])
PACKAGES = ("biasgate", "gateway", "auditors", "benchmarks", "tests", "grafana")
CITING = sorted(
    [*PAGES, ROOT / "pyproject.toml"]
    + [path for package in PACKAGES for kind in ("py", "toml") for path in (ROOT / package).rglob(f"*.{kind}")]
)
NUMBER = r"[1-9]\d?A?(?:\.\d+)?"
CITATION = re.compile(rf"(?<![\w/])(protocols|contract|design) ({NUMBER}(?:(?:, | and | to ){NUMBER})*)(?!\w)")
HEADING = re.compile(rf"^#+ ({NUMBER})\.? ", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def section_table(title: str) -> dict[str, str]:
    """Key to default cell, of the table under a heading."""
    part = CONFIGURATION.split(f"\n## {title}\n", 1)[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", part, re.MULTILINE))


def default_cell(field: msgspec.structs.FieldInfo) -> str:
    """How configuration.md writes a field's default."""
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
    classes = [kind for module in (schema, export, ingest, mitigation) for kind in vars(module).values()]
    structs = {kind for kind in classes if isinstance(kind, type) and issubclass(kind, schema.Section)}
    assert structs - {schema.Section, schema.Config, schema.AuditorsConfig} == set(SECTIONS.values())
    ours = [field for field in msgspec.structs.fields(schema.AuditorsConfig) if field.name != "plugins"]
    auditors = [(f"[auditors.{field.name}]", field.type) for field in ours]
    for kind in {kind for _, kind in auditors}:
        assert SECTIONS[", ".join(name for name, its in auditors if its is kind)] is kind


def test_every_metric_is_documented() -> None:
    """The metrics table lists exactly the families that are exported."""
    listed = re.findall(r"^\| `(biasgate_\w+)` \|", (DOCS / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {family(name) for name in listed} == exported_families()
    assert len(listed) == len(set(listed))


def test_contract_promises_what_is_exported() -> None:
    """Section 4 of the contract lists exactly the families that are exported, and none of those that are planned."""
    section = text_of(DOCS / "contract.md").split("\n## 4. ", 1)[1].split("\n## ")[0]
    rows = "".join(re.findall(r"^\| (`biasgate.*?) \|", section, re.MULTILINE))
    named = {family(name) for name in re.findall(r"`(biasgate_\w+)`", rows)}
    bounds = {f"biasgate_audit_estimate{end}" for end in re.findall(r"`(_\w+)`", rows)}
    assert named | bounds == exported_families()


def test_every_auditor_is_documented() -> None:
    """Each auditor has its section, which links its module."""
    page = (DOCS / "auditors.md").read_text(encoding="utf-8")
    for name, kind in AUDITORS.items():
        part = page.split(f"\n## {name}\n", 1)[1].split("\n## ")[0]
        assert kind.__module__.replace(".", "/") + ".py" in part


def test_every_example_of_a_configuration_is_valid(tmp_path: Path) -> None:
    """Each block of TOML in the manual is read by the program without complaint."""
    examples = re.findall(r"^```toml\n(.*?)^```", "".join(map(text_of, MANUAL)), re.MULTILINE | re.DOTALL)
    tutorials = [text_of(page) for page in (DOCS / "tutorials").glob("*.md")]
    examples += re.findall(r"<<'TOML'\n(.*?)^TOML", "".join(tutorials), re.MULTILINE | re.DOTALL)
    upstream = '[[upstreams]]\nname = "one"\nbase_url = "http://127.0.0.1:1"\n'
    path = tmp_path / "biasgate.toml"
    assert len(examples) > len(SECTIONS)
    for example in examples:
        path.write_text((upstream if "\n[upstreams." in f"\n{example}" else "") + example)
        load(path, environ={})


def test_every_page_is_in_one_list_of_the_manual() -> None:
    """docs/README.md lists each page of docs/ and each tutorial once."""
    linked = re.findall(r"^- .*?\]\((.+?\.md)\)", text_of(DOCS / "README.md"), re.MULTILINE)
    pages = [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md")]
    names = [str(page.relative_to(DOCS)) for page in pages if page.stem != "README"]
    assert sorted(linked) == sorted([*names, "adr/README.md", "integrations/README.md"])


async def test_every_route_is_documented(tmp_path: Path) -> None:
    """api.md names each operation that the program announces in its OpenAPI, and no other."""
    async with control_plane(tmp_path) as plane:
        paths = plane.app.openapi_schema.to_schema()["paths"]
    announced = {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}
    named = set(re.findall(r"`((?:GET|POST|PUT|DELETE) /(?!v1|schema)[^`\s]*)`", text_of(DOCS / "api.md")))
    assert named == announced


def test_the_table_of_routes_and_roles_is_the_programs() -> None:
    """security.md has it as the guard reads it; `route_access.markdown_table()` prints it anew."""
    assert f"\n{markdown_table(all_routes())}\n" in text_of(DOCS / "security.md")


def test_every_suite_is_in_the_readme() -> None:
    """The README's table links each suite's card."""
    assert [name for name in SUITES if f"[`{name}`](benchmarks/suites/{name}/card.md)" not in text_of(README)] == []


def broken_citations(text: str) -> list[str]:
    """Citations such as "protocols 3.1" that no heading of the page answers."""
    joined = re.sub(r"\s*\n\s*(?:#+ )?", " ", text)
    return [
        f"{page} {number}"
        for page, numbers in CITATION.findall(joined)
        for number in re.findall(NUMBER, numbers)
        if page not in SPECIFICATIONS or number not in HEADING.findall(text_of(DOCS / f"{page}.md"))
    ]


def test_citations_lead_somewhere() -> None:
    """Each "protocols N.M" and "contract N" in code, configuration and pages is a section of that page."""
    cited = {str(path.relative_to(ROOT)): broken_citations(text_of(path)) for path in CITING if path != Path(__file__)}
    assert {path: broken for path, broken in cited.items() if broken} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    """Every path in code type leads to a file or folder, and every test file that is named is there."""
    paths = re.findall(r"`((?:gateway|auditors|benchmarks|tests|deploy|grafana|docs)/[\w./-]+)`", text_of(page))
    tests = re.findall(r"`(test_\w+\.py)`", text_of(page))
    lost = [path for path in paths if "NAME" not in path and not (ROOT / path).exists()]
    assert lost + [name for name in tests if not any((ROOT / "tests").rglob(name))] == []


def anchors(page: Path) -> set[str]:
    """What a link may name after `#`: the headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that exists, and a heading that it has."""
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)) if "://" not in link]
    lost = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


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
