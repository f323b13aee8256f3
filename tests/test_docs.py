"""The documentation names what there is: auditors, suites, examples, citations. Listings: tools/test_reference.py."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from auditors.registry import AUDITORS
from benchmarks.suites.registry import SUITES
from gateway.config.loading import load

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
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
    assert len(examples) > 25
    for example in examples:
        path.write_text((upstream if "\n[upstreams." in f"\n{example}" else "") + example)
        load(path, environ={})


def test_every_page_is_in_one_list_of_the_manual() -> None:
    """docs/README.md lists each page of docs/ and each tutorial once."""
    linked = re.findall(r"^- .*?\]\((.+?\.md)\)", text_of(DOCS / "README.md"), re.MULTILINE)
    pages = [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md")]
    names = [str(page.relative_to(DOCS)) for page in pages if page.stem != "README"]
    assert sorted(linked) == sorted([*names, "adr/README.md", "integrations/README.md"])


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


def leads(page: Path, link: str) -> bool:
    """Return whether a link of a page names a file that exists, and a heading that it has."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that exists, and a heading that it has."""
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)) if "://" not in link]
    assert [link for link in links if not leads(page, link)] == []


def test_pages_that_code_names_exist() -> None:
    """Every page of docs/ that the product's code, help or configuration names is there, and has the section."""
    product = [path for path in CITING if path.suffix != ".md" and "tests" not in path.parts]
    named = {link for path in product for link in re.findall(r"(?<![\w/])docs/[\w/.-]+\.md(?:#[\w-]+)?", text_of(path))}
    assert len(named) > 30
    assert [link for link in sorted(named) if not leads(README, link)] == []


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
