"""Writes the README's tree from the first words of each module's docstring: `.venv/bin/python docs/tree.py`."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.cli import VERBS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PACKAGES = ("gateway", "auditors", "benchmarks")
COMMANDS = {verb.module: f"{name}: {verb.summary}" for name, verb in VERBS.items()}
WIDTH = 34
LONGEST = 100
OTHERS = {
    "tests/": "what each file tests is said in its first line",
    "  integration/": "real sockets, real processes, a real Prometheus",
    "  vllm/": "a real vLLM on the CPU with a tiny model (make test-vllm)",
    "  bench/": "speed, side by side with other gateways (make bench, make bench-gateway)",
    "deploy/": "Dockerfile, compose file, its configuration",
    "  prometheus/": "scrape configuration, recording and alert rules with their tests",
    "  grafana/": "provisioning of data source and dashboard",
    "grafana/": "three dashboards: NAME.toml, and build.py that makes NAME.json of it",
    "docs/": "architecture, operations, auditors; decisions in adr/, what to do about an alert in runbooks/",
    ".ci/": "run: all of CI; services.sh: PostgreSQL and tools; vllm-env: the CPU build of vLLM",
    "Makefile": "demo, check, test, test-vllm, bench, bench-gateway",
}


def tree() -> str:
    """The text between the README's ```text fences."""
    lines = [line for package in PACKAGES for line in folder(ROOT / package, 0)]
    lines += [line_of(name, comment) for name, comment in OTHERS.items()]
    return "\n".join(lines)


def folder(path: Path, depth: int) -> Iterator[str]:
    """A package, its modules, then its folders; of what is not Python, the kinds of files."""
    yield line_of("  " * depth + path.name + "/", first_words(path / "__init__.py") or other_kinds(path))
    for module in sorted(path.glob("*.py")):
        if module.name != "__init__.py":
            yield line_of("  " * (depth + 1) + module.name, first_words(module))
    for inner in sorted(path.iterdir()):
        if inner.name != "versions" and any(inner.glob("*.py")):
            yield from folder(inner, depth + 1)
        elif inner.is_dir() and inner.name[0] not in "._":
            yield line_of("  " * (depth + 1) + inner.name + "/", other_kinds(inner))


def other_kinds(path: Path) -> str:
    """Suffixes of a folder's files that are not Python."""
    return " ".join(sorted({file.suffix for file in path.glob("*.*") if file.suffix not in (".py", ".pyc", "")}))


def first_words(module: Path) -> str:
    """The first sentence of a docstring that is not an example, cut at a comma or colon where it is long."""
    if not module.is_file():
        return ""
    if (verb := COMMANDS.get(module.stem)) and module.parent.name == "cli":
        return f"biasgate {verb}"
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    paragraphs = [part for part in text.split("\n\n") if not part.lower().startswith("example")]
    sentence = re.split(r"(?<=[a-z)`\]])\.(?:\s|$)", " ".join(paragraphs[0].split()) if paragraphs else "")[0]
    while len(sentence) > LONGEST and (shorter := re.split(r"[:;,] [^:;,]*$", sentence)[0]) != sentence:
        sentence = shorter
    return sentence


def line_of(name: str, comment: str) -> str:
    return f"{name:<{WIDTH}}{comment}".rstrip()


def updated(readme: str) -> str:
    """The README with the present tree in its fence."""
    head, rest = readme.split("```text\n", 1)
    return f"{head}```text\n{tree()}\n```{rest.split('```', 1)[1]}"


def main() -> int:
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
