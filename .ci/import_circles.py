"""Finds modules that import each other in a circle. Usage: import_circles.py PACKAGE..., in the repository's root.

An import counts wherever it stands: at the top, inside a function, under TYPE_CHECKING. It counts for the module it
names, not for the packages around that one: else no package could offer names of its own modules.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Graph = dict[str, set[str]]


def import_graph(root: Path, packages: Iterable[str]) -> Graph:
    """Each module of these packages, and those of them that it imports."""
    paths = {_name(path.relative_to(root)): path for package in packages for path in (root / package).rglob("*.py")}
    return {name: set(_imports(path, name, paths.keys())) - {name} for name, path in paths.items()}


def circles(graph: Graph) -> Iterator[list[str]]:
    """One circle after the other, each from a module back to itself, until without their first steps none is left."""
    left = {name: sorted(graph[name]) for name in sorted(graph)}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as exc:
            circle: list[str] = exc.args[1][::-1]  # the sorter goes from the imported to the importing
            yield circle
            left[circle[0]].remove(circle[1])
        else:
            return


def _name(path: Path) -> str:
    return ".".join(path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts)


def _imports(path: Path, name: str, modules: Iterable[str]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            named = (f"{base}.{alias.name}" for alias in node.names)  # a module, or something in `base`
            yield from {module if module in modules else base for module in named} & {*modules}


def main() -> int:
    """Prints every circle; 1 when there is one."""
    found = [*circles(import_graph(Path.cwd(), sys.argv[1:]))]
    for circle in found:
        print(" -> ".join(circle))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
