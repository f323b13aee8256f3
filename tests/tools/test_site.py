"""The site of the manual, built and searched as a reader does, its notebooks, and its readers' first tutorials."""

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from gateway.features.deploy.runbooks import read_runbook
from tests.support.browser import Chromium
from tests.support.processes import free_port
from tests.support.required import program
from tools.site.hooks import DOCS, PAGES, ROOT
from tools.site.notebooks import TUTORIALS, execute

QUESTIONS = {
    "how do I install it on Kubernetes": "install",
    "reload configuration without restart": "operations",
    "which suite for my use": "recipes",
    "emergency bypass": "recipes",
    "how large a number matters": "recipes",
    "qualify a judge": "judges",
    "glossary of terms": "glossary",
    "collect labels from people": "judges",
    "first alarm": "tutorials/first-alarm",
    "audit a model in a notebook": "tutorials/audit-a-model",
    "read a live gateway from Python": "tutorials/read-a-live-gateway",
    "LiteLLM callback": "integrations/litellm",
    "MLflow experiment": "integrations/mlflow",
    "Envoy tap": "integrations/proxies",
    "redaction of stored text": "privacy",
    "TLS": "security",
    "scaling": "scaling",
    "signed bundle verify": "bundles",
    "canaries": "canary",
    "BiasgateUpstreamDown": "runbooks/upstream-down",
}
"""Questions of newcomers, and the page that answers each."""
TAG = re.compile(r"<(li|tr|pre|table|h[1-6]|ol|ul|img)\b")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the built version; a warning of mkdocs fails."""
    out = tmp_path_factory.mktemp("site")
    from tools.site.__main__ import build_site

    build_site(out, "9.9")
    return out / "9.9"


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/9.9/"
        server.shutdown()
        thread.join()


def test_pages_have_the_blocks_of_the_repository(site: Path) -> None:
    """Each page shows as many lists, tables and blocks as the repository, and loads nothing from elsewhere."""
    reader = MarkdownIt("commonmark").enable("table")
    sources = {str(path.relative_to(ROOT)): str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | PAGES
    for source, name in sources.items():
        built = (site / re.sub(r"(README)?\.md$", "", name) / "index.html").read_text(encoding="utf-8")
        article = re.search(r"<article.*?</article>", built, re.DOTALL)
        assert article is not None
        assert Counter(TAG.findall(article[0])) == Counter(TAG.findall(reader.render((ROOT / source).read_text()))), (
            name
        )
        assert not re.search(r'<(?:script|img|link)[^>]*(?:src|href)="https?:', built)
    assert '<abbr title="a language model that scores texts">' in (site / "operations/index.html").read_text()


def test_alerts_lead_to_their_runbooks(site: Path) -> None:
    """Each address that an alert rule names is a page of the site, and of the console, with links to runbooks alone."""
    names = re.findall(r"runbooks }}/(\S+\.md)", (ROOT / "deploy/prometheus/rules.yml").read_text())
    assert len(names) > 10
    assert [name for name in names if not (site / "runbooks" / name / "index.html").exists()] == []
    pages = [read_runbook(name) for name in names]
    assert all(title.startswith("Biasgate") and "<ol>" in text for title, text in pages)
    assert not any(re.search(r'\*\*|```|]\(|href="(?![a-z-]+\.md")', text) for _, text in pages)


@pytest.mark.long
def test_search_answers_newcomers(address: str) -> None:
    """The page that answers a newcomer's question is among the first three results of the site's own search."""
    chromium = Chromium.running()

    def search() -> dict[str, list[str]]:
        page = chromium._browser.new_page()
        results = {}
        for question in QUESTIONS:
            page.goto(f"{address}?q={question}")
            page.wait_for_selector(".md-search-result__item a")
            links = page.eval_on_selector_all(
                ".md-search-result__item > a", "links => [...new Set(links.map(link => link.pathname))].slice(0, 3)"
            )
            results[question] = [link.removeprefix("/9.9/").strip("/") for link in links]
        page.close()
        return results

    results = chromium.do(search)
    assert {question: results[question] for question, page in QUESTIONS.items() if page not in results[question]} == {}


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.ipynb")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    """A notebook of the manual runs as committed, prints where the committed outputs print, and names no machine."""
    printed, committed = (
        [bool(cell.get("outputs")) for cell in notebook["cells"]]
        for notebook in (execute(path, tmp_path), json.loads(path.read_text(encoding="utf-8")))
    )
    assert printed == committed
    assert sum(committed) >= 1
    assert not re.search(r"/(?:home|root|work|tmp|Users)/", path.read_text())


@pytest.mark.long
@pytest.mark.parametrize(
    ("reader", "tutorial"),
    [
        ("platform-engineer", "first-number"),
        ("application-team", "first-alarm"),
        ("auditor", "first-suite-and-report"),
    ],
)
def test_a_readers_first_tutorial_works(reader: str, tutorial: str, tmp_path: Path) -> None:
    """The commands of a tutorial print, in order, the lines that it shows; numbers of live traffic may differ."""
    for name in ("curl", "jq"):
        program(name, package=name, kind="WALKS")
    assert f"(../tutorials/{tutorial}.md)" in (DOCS / f"readers/{reader}.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (DOCS / f"tutorials/{tutorial}.md").read_text(), re.M | re.S)
    script = "".join(text for kind, text in blocks if kind == "sh" and "biasgate try" not in text)
    model, gateway, auditor = (str(free_port()) for _ in range(3))
    script = re.sub(r"\b8000\b", model, re.sub(r"\b8080\b", gateway, script))
    ports = {"BIASGATE_SERVER__PORT": gateway, "BIASGATE_SERVER__AUDITOR_METRICS_PORT": auditor}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-c", f"trap 'kill $(jobs -p); wait' EXIT\n{script}"]
    environ = os.environ | ports | {"PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=400, check=False)

    shown = [line for kind, text in blocks if not kind for line in text.splitlines() if line != "..."]
    is_live = "biasgate serve" in script
    pattern = ".*?".join(_pattern_of(line, is_live=is_live) for line in shown)
    assert re.search(pattern, done.stdout, re.S), done.stdout + done.stderr


def _pattern_of(line: str, *, is_live: bool) -> str:
    parts = re.split(r"(\.\.\.|-?\d[\d.]*)", line)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [".*?" if part == "..." else r"-?\d[\d.e-]*" if is_live else re.escape(part) for part in parts[1::2]]
    return "".join(parts)
