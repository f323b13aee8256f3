"""Tables in Markdown, of words that others may have written."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[object]]) -> str:
    """A table whose first row holds the heads; no cell can end its own or start markup."""
    head, *body = (f"| {' | '.join(map(cell, row))} |" for row in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])


def cell(text: object) -> str:
    """One line, with what would end a cell or start markup taken for itself."""
    return (
        " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    )
