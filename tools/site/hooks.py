"""Turns the pages of docs/, which read well in the repository, into the site's: mkdocs calls the functions `on_...`.

Navigation comes from the lists of docs/README.md, the glossary's tooltips from docs/glossary.md. Pages outside docs/
that the manual links are pages of the site too; other files are links to the repository.
"""

import html
import json
import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
PAGES |= {f"benchmarks/suites/{path.parent.name}/card.md": f"suites/{path.parent.name}.md"
          for path in ROOT.glob("benchmarks/suites/*/card.md")}  # fmt: skip
"""Pages of the site, by their path in the repository outside docs/."""
NOTEBOOKS = {f"docs/tutorials/{path.name}": f"tutorials/{path.stem}.md" for path in DOCS.glob("tutorials/*.ipynb")}
"""Pages of the site that show a notebook, by its path."""
FOLDERS = {"runbooks": "Runbooks", "evidence": "Evidence"}
"""Folders of docs/ without a page of their own: the site lists their pages."""
RARELY_WANTED = ("adr/", "evidence/", "readers/", "suites/", "contract", "protocols", "changelog", "contributing")
"""Pages that search shows below the others."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]*)(#[^)\s]*)?(?=\))")
UNTOUCHED = re.compile(r"(<(?P<name>pre|code|a|h\d|script|style|svg)\b.*?</(?P=name)>|<[^>]*>)", re.DOTALL)
"""Parts of a page's HTML in which no term is marked."""
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
"""A block of code."""
PARAGRAPH = r"(?!\s*(?:[-*]|\d+\.) |\|| {2,})"
"""The start of a line that belongs to no list and no table."""


def read_title(path: Path) -> str:
    """Return the text of a page's first heading."""
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ").strip()


def show_notebook(path: Path) -> str:
    """Return a notebook as a page: its texts, its code and what it printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += ["```\n" + "".join(output["text"]).rstrip() + "\n```" for output in cell.get("outputs", ())]
    return "\n\n".join([*parts, ""])


def list_folder(folder: str) -> str:
    """Return the page that lists a folder's pages."""
    lines = [f"- [{read_title(path)}]({path.name})" for path in sorted((DOCS / folder).glob("*.md"))]
    return "\n".join([f"# {FOLDERS[folder]}", "", *lines, ""])


def read_navigation() -> list[dict[str, object]]:
    """Return the site's navigation: the readers' pages, then each list of docs/README.md."""
    navigation: list[dict[str, object]] = [{"Start": ["README.md", "overview.md", *_list_pages("readers")]}]
    for part in re.split(r"^(?=\*\*)", (DOCS / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = part[2:].split("**", 1)[0]
        entries = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)", part, re.MULTILINE)
        navigation.append({heading: [_expand(title, target) for title, target in entries]})
    navigation[3]["Reference"] = [*_as_list(navigation[3]["Reference"]), {"Suites": sorted(
        page for page in PAGES.values() if page.startswith("suites/"))}]  # fmt: skip
    return [*navigation, {"Project": ["contributing.md", "changelog.md"]}]


def _list_pages(folder: str) -> list[str]:
    return [f"{folder}/{path.name}" for path in sorted((DOCS / folder).glob("*.md")) if path.stem != "README"]


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _expand(title: str, target: str) -> dict[str, object]:
    folder, name = posixpath.split(target)
    if folder in FOLDERS or name == "README.md":
        return {title: [f"{folder}/{name or 'index.md'}", *_list_pages(folder)]}
    return {title: NOTEBOOKS.get(f"docs/{target}", target)}


def read_glossary() -> dict[str, str]:
    """Return each term of docs/glossary.md with its meaning as plain text."""
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {term: re.sub(r" \(\[[^)]*\)\)|\[|\]\([^)]*\)|`", "", meaning) for term, meaning in rows[1:]}


def mark_terms(page: str, glossary: Mapping[str, str]) -> str:
    """Return the page's HTML with a tooltip at the first use of each term."""
    terms = sorted(glossary, key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, terms))})(?=s?\b)", re.IGNORECASE)
    waiting = dict(glossary)

    def mark(match: re.Match[str]) -> str:
        meaning = waiting.pop(match[0].lower(), None)
        return f'<abbr title="{html.escape(meaning)}">{match[0]}</abbr>' if meaning else match[0]

    parts, end = [], 0
    for untouched in UNTOUCHED.finditer(page):
        parts += [pattern.sub(mark, page[end : untouched.start()]), untouched[0]]
        end = untouched.end()
    return "".join([*parts, pattern.sub(mark, page[end:])])


def adapt_blocks(text: str) -> str:
    """Return the page as Python-Markdown reads it: lists and tables stand apart, inner lists are indented by 4."""
    parts = FENCE.split(text)
    for place in range(0, len(parts), 2):
        part = re.sub(rf"^({PARAGRAPH}.+\n)(?=(?:[-*]|1\.) |\|)", r"\1\n", parts[place], flags=re.MULTILINE)
        part = re.sub(r"^ {2,3}(?=[*-] )", "    ", part, flags=re.MULTILINE)
        parts[place] = re.sub(r"^( +\d+)\. ", r"\1\\. ", part, flags=re.MULTILINE)
    return "".join(parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    config.nav = read_navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/ and the lists of folders."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for source, name in NOTEBOOKS.items():
        files.append(File.generated(config, name, content=show_notebook(ROOT / source)))
        files.remove(file) if (file := files.get_file_from_path(source.removeprefix("docs/"))) else None
    for folder in FOLDERS:
        files.append(File.generated(config, f"{folder}/index.md", content=list_folder(folder)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose relative links lead to pages of the site, else to files of the repository."""
    places = {name: source for source, name in (PAGES | NOTEBOOKS).items()}
    here = page.file.src_uri
    page.meta["search"] = {
        "boost": 0.3 if here.startswith(RARELY_WANTED) else 2 if here.startswith(("glossary", "runbooks/")) else 1
    }
    source = places.get(here, f"docs/{here}")

    def lead(match: re.Match[str]) -> str:
        if not match[1]:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        name = (PAGES | NOTEBOOKS).get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if name in FOLDERS:
            name = f"{name}/index.md"
        if name and files.get_file_from_path(name):
            return os.path.relpath(name, posixpath.dirname(here) or ".") + (match[2] or "")
        if not (ROOT / target).exists():
            return match[0]  # mkdocs names it
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target}{match[2] or ''}"

    return LINK.sub(lead, adapt_blocks(markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with the glossary's tooltips."""
    return html if page.file.src_uri == "glossary.md" else mark_terms(html, read_glossary())


def on_post_build(config: MkDocsConfig) -> None:
    """Write a page at each address that an alert names, such as runbooks/drift.md."""
    for path in (DOCS / "runbooks").glob("*.md"):
        address = Path(config.site_dir) / "runbooks" / path.name / "index.html"
        address.parent.mkdir(parents=True, exist_ok=True)
        address.write_text(redirect(f"../{path.stem}/"), encoding="utf-8")


def redirect(address: str) -> str:
    """Return a page that leads to a relative address."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>biasgate</title>'
        f'<meta http-equiv="refresh" content="0; url={address}"></head><body><a href="{address}">biasgate</a></body>'
        "</html>\n"
    )
