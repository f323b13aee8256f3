"""Measures the code's size, structure, names and prose, and compares each figure with its limit.

Usage: house.py [--worst N], in the repository's root. Prints each figure with its limit from house.toml, which stands
beside this file, and returns 1 where a figure exceeds its limit. `--worst N` prints N places of each figure.
"""

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from import_circles import import_graph

PRODUCT = ("biasgate", "gateway", "auditors", "benchmarks")
OPTIONAL = ("gateway/features/", "gateway/demo/", "benchmarks/lab/", "benchmarks/simulator/")
"""Folders that the core does not import."""
LARGE_FOLDER = 20
"""Modules, without `__init__.py`."""
SMALL_MODULE = 60
"""Lines."""
EMPTY_NAMES = frozenset(
    {"one", "found", "said", "asked", "known", "made", "wanted", "shown", "kept", "told", "given", "taken", "unasked"}
    | {"others", "whose"}
)
FRAGMENT = re.compile(
    r"(?:Of|As|What|Whether|By|With|In|On|Where|Those|Who|Whose|Whom|Which|From|Without|To|None|When|How|For|Until)\b"
    r"|(?:Because|While|At|Than|So|And|But|Not)\b"
)
"""The start of a docstring that is not a sentence."""
IDIOMS = re.compile(
    r"\b(?:nobody|somebody|whoever|whom|whichever|anew|alike|afresh|beside|thereof|hereof)\b"
    r"|\b(?:is|are|was|were) no (?!longer|more|need|way)\w+"
    r"|\b(?:the ones?|one that|one of which|of one|by one)\b"
    r"|(?:^|[.:;] )(?:What|Whether|Who|Whom|Whose) (?!is\b.*\?)"
    r"|\b(?:makes?|made|came|comes?|became|becomes?) of\b|\bhangs? on\b",
    re.MULTILINE,
)
"""Phrases that other projects' documentation does not have."""
Trees = Mapping[str, ast.Module]


class Figure(NamedTuple):
    """A measured property of the checkout."""

    value: float
    places: Sequence[str] = ()


class Docstring(NamedTuple):
    """The text of a docstring and the place where it starts, as "FILE:LINE"."""

    place: str
    text: str


def list_tracked(pattern: str) -> list[str]:
    """Return the paths of the files in git that match the pattern."""
    listing = subprocess.run(["git", "ls-files", pattern], check=True, capture_output=True, text=True)
    return [path for path in listing.stdout.splitlines() if Path(path).exists()]


def count_lines(paths: Iterable[str]) -> Figure:
    """Return the lines of these files together."""
    return Figure(sum(Path(path).read_text(encoding="utf-8").count("\n") for path in paths))


def count_words(paths: Iterable[str]) -> Figure:
    """Return the words of these files together."""
    words = {path: len(Path(path).read_text(encoding="utf-8").split()) for path in paths}
    return Figure(sum(words.values()), [f"{path}: {count}" for path, count in Counter(words).most_common()])


def find_room(path: str) -> str:
    """Return the second level of a path, such as gateway/store; a file of the first level is its own room."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else path


def find_cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one member."""
    reachable = {node: _reach(edges, node) for node in edges}
    components = {
        tuple(sorted(other for other in targets if node in reachable.get(other, ())))
        for node, targets in reachable.items()
        if node in targets
    }
    return [[*component] for component in sorted(components) if len(component) > 1]


def _reach(edges: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for target in edges.get(waiting.pop(), set()) - reached:
            reached.add(target)
            waiting.append(target)
    return reached


def measure_structure(files: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of folders and imports."""
    modules = {".".join(Path(file).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    graph = import_graph(Path.cwd(), PRODUCT)
    imports = {(modules[importing], modules[name]) for importing, names in graph.items() for name in names}
    edges: dict[str, set[str]] = defaultdict(set)
    importers: dict[str, set[str]] = defaultdict(set)
    for importing, imported in imports:
        importers[imported].add(importing)
        if find_room(importing) != find_room(imported):
            edges[find_room(importing)].add(find_room(imported))
    cycles = find_cycles(edges)
    yield "rooms_in_cycles", Figure(sum(map(len, cycles)), [", ".join(cycle) for cycle in cycles])

    inward = sorted(f"{a} -> {b}" for a, b in imports if b.startswith(OPTIONAL) and not a.startswith(OPTIONAL))
    yield "imports_of_optional_folders", Figure(len(inward), inward)

    counted = (file for file in files if not file.endswith("__init__.py") and "/migrations/" not in file)
    folders = Counter(str(Path(file).parent) for file in counted)
    large = [f"{name}: {count}" for name, count in folders.most_common() if count > LARGE_FOLDER]
    yield "large_folders", Figure(len(large), large)

    lone = [
        f"{file} for {importer}"
        for file in files
        for importer in importers[file]
        if len(importers[file]) == 1
        and Path(file).parent == Path(importer).parent
        and count_lines([file]).value <= SMALL_MODULE
    ]
    yield "small_modules_with_one_importer", Figure(len(lone), lone)


def read_docstrings(trees: Trees) -> Iterator[Docstring]:
    """Yield the docstrings of modules, classes, functions and attributes."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                yield from [Docstring(f"{file}:{getattr(node, 'lineno', 1)}", text)] if text else []
            if isinstance(node, ast.Module | ast.ClassDef):
                for attribute, below in zip(node.body, node.body[1:], strict=False):
                    match attribute, below:
                        case (ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                            yield Docstring(f"{file}:{below.lineno}", text)


def read_names(trees: Trees) -> Iterator[str]:
    """Yield each name that a parameter, an assignment or a function binds."""
    for tree in trees.values():
        for node in ast.walk(tree):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name


def measure_language(files: Sequence[str], pages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of names, docstrings and pages."""
    trees = {file: ast.parse(Path(file).read_bytes()) for file in files}
    names = [*read_names(trees)]
    empty = Counter(name for name in names if name.strip("_") in EMPTY_NAMES)
    share = 100 * empty.total() / len(names)
    yield "empty_names_percent", Figure(share, [f"{name}: {count}" for name, count in empty.most_common()])

    docstrings = [*read_docstrings(trees)]
    fragments = [docstring for docstring in docstrings if FRAGMENT.match(docstring.text.strip())]
    places = [f"{place} {text.strip().splitlines()[0]}" for place, text in fragments]
    yield "docstring_fragments_percent", Figure(100 * len(fragments) / len(docstrings), places)

    texts = [Docstring(page, Path(page).read_text(encoding="utf-8")) for page in pages]
    for name, sources in (("docstring_idioms_per_10000_words", docstrings), ("page_idioms_per_10000_words", texts)):
        idioms = [f"{place}: {match[0]}" for place, text in sources for match in IDIOMS.finditer(text)]
        yield name, Figure(1e4 * len(idioms) / sum(len(text.split()) for _, text in sources), idioms)


def measure() -> Iterator[tuple[str, Figure]]:
    """Yield each figure of the checkout by its name in house.toml."""
    files = [file for file in list_tracked("*.py") if file.startswith(tuple(f"{name}/" for name in PRODUCT))]
    yield "product_lines", count_lines(files)
    yield "core_lines", count_lines(file for file in files if not file.startswith(OPTIONAL))
    yield "test_lines", count_lines(file for file in list_tracked("*.py") if file.startswith("tests/"))
    yield from measure_structure(files)
    pages = [page for page in list_tracked("*.md") if "/" not in page or page.startswith("docs/") or "/card." in page]
    yield from measure_language(files, [page for page in pages if page != "CHANGELOG.md"])
    evidence = [page for page in pages if page.startswith("docs/evidence/")]
    apart = ("docs/evidence/", "docs/adr/", "docs/protocols")
    yield "readme_words", count_words(["README.md"])
    yield "changelog_words", count_words(["CHANGELOG.md"])
    yield "manual_words", count_words(p for p in pages if p.startswith("docs/") and not p.startswith(apart))
    yield "evidence_words", count_words(evidence)


def main() -> int:
    """Print each figure; return 1 where a figure exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="places of each figure to print")
    worst: int = parser.parse_args().worst
    limits = tomllib.loads(Path(__file__).with_name("house.toml").read_text(encoding="utf-8"))
    exceeded = 0
    for name, figure in measure():
        over = figure.value > limits[name]
        exceeded += over
        print(f"{'OVER' if over else 'ok':4} {name:34} {round(figure.value, 2):>10,}  (at most {limits[name]:,})")
        for place in figure.places[:worst]:
            print(f"       {place}")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
