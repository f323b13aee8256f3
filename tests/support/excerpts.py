"""Examples on pages of the manual that show part of what a command prints."""


def block_from(page: str, beginning: str) -> str:
    """Return the rest of the code block of a page that starts with this text. Raises ValueError without one."""
    start = page.index(beginning)
    return page[start : page.index("\n```", start)]


def is_excerpt(block: str, printed: str) -> bool:
    """Return whether a block is what was printed, but for parts in whose place stands a line of three dots."""
    position = 0
    for part in f"\n{block}\n".split("\n...\n"):
        position = printed.find(part.strip("\n"), position)
        if position < 0:
            return False
        position += len(part.strip("\n"))
    return True
