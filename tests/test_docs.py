"""The documentation names what there is: auditors, suites, examples, citations. Listings: tools/test_reference.py."""

import ast
import re
import tomllib
from collections.abc import Iterator
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
TASKS = [page for page in MANUAL if page.parent == DOCS and page.stem not in ("architecture", "README", "glossary")]
LINE_LENGTH = 120
README_LINES, README_BYTES, IMAGE_BYTES = 150, 12_000, 200_000
WRAPPED_FOLDERS = (DOCS, DOCS / "evidence", DOCS / "runbooks", DOCS / "tutorials")
WRAPPED = sorted({*MANUAL, *(page for folder in WRAPPED_FOLDERS for page in folder.glob("*.md"))})
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


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_every_section_has_an_example(page: Path) -> None:
    """Each section of a page that says how to do something shows a command, a query, a configuration or an answer."""
    sections = re.split(r"^## ", text_of(page), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections if "\n```" not in section] == []


def test_every_page_is_in_one_list_of_the_manual() -> None:
    """docs/README.md lists each page of docs/ and each tutorial once."""
    linked = re.findall(r"^- .*?\]\((.+?\.md)\)", text_of(DOCS / "README.md"), re.MULTILINE)
    pages = [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md")]
    names = [str(page.relative_to(DOCS)) for page in pages if page.stem != "README"]
    assert sorted(linked) == sorted([*names, "adr/README.md", "integrations/README.md"])


def test_every_suite_is_in_the_readme() -> None:
    """The README's table links each suite's card."""
    assert [name for name in SUITES if f"[`{name}`](benchmarks/suites/{name}/card.md)" not in text_of(README)] == []


def test_readme_is_short() -> None:
    """The README can be read in a few minutes."""
    assert len(text_of(README).splitlines()) <= README_LINES
    assert README.stat().st_size <= README_BYTES


def test_pictures_load_at_once() -> None:
    """Each is small, and on a page."""
    pictures = [
        (page.parent / name).resolve()
        for page in (README, *DOCS.glob("*.md"))
        for name in re.findall(r"^!\[[^\]]+\]\(([^)]+\.(?:png|svg))\)$", text_of(page), re.MULTILINE)
    ]
    assert [path.name for path in pictures if path.stat().st_size >= IMAGE_BYTES] == []
    assert sorted(pictures) == sorted((DOCS / "images").resolve().iterdir())


def prose(text: str) -> Iterator[str]:
    """The lines of a page that are neither in a fence nor of a table."""
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and not line.lstrip().startswith("|"):
            yield line


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_the_manual_fit(page: Path) -> None:
    """No line of prose is longer than 120 characters, unless one link or one piece of code is."""
    long = [line for line in prose(text_of(page)) if len(line) > LINE_LENGTH]
    assert [line for line in long if len(re.sub(r"\]\([^)]*\)|`[^`]*`", "", line)) > LINE_LENGTH] == []


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


@pytest.mark.parametrize(
    "text", ["(protocols 3.99)", "contract 9", "design 5", "protocols 3.1,\n# 3.99", "(protocols\n7.7)"]
)
def test_broken_citations_are_found(text: str) -> None:
    """A section that does not exist, also across a line's end, and any section of a page that is gone."""
    assert len(broken_citations(text)) == 1


def test_section_numbers_are_unique() -> None:
    """A citation leads to one heading."""
    for page in SPECIFICATIONS:
        numbers = HEADING.findall(text_of(DOCS / f"{page}.md"))
        assert len(numbers) == len(set(numbers)) > 0


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
