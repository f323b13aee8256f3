"""Forms of Markdown that several listings have."""

import re
from collections.abc import Iterable, Sequence

CITED = re.compile(r"docs/(([\w-]+/)*([\w-]+))\.md(#[\w-]+)?")
"""A citation of a page in the code, such as docs/operations.md#export."""


def link(text: str) -> str:
    """Return the text with its citations of pages of the manual as links."""
    return CITED.sub(lambda match: f"[{match[3]}]({match[1]}.md{match[4] or ''})", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a | in a cell is escaped."""
    lines = [head, ["---"] * len(head), *([link(cell.replace("|", r"\|")) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines)
