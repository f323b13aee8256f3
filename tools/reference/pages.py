"""The pages with generated listings. A listing stands between `<!--reference:NAME-->` and `<!--end-->`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import command_line, configuration, metrics, routes

MANUAL = Path(__file__).parents[2] / "docs"
LISTING = re.compile(r"<!--reference:([^>]+)-->\n.*?<!--end-->", re.DOTALL)
PAGES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "api.md": routes.write_listings,
    "cli.md": command_line.write_listings,
    "configuration.md": configuration.write_listings,
    "metrics.md": metrics.write_listings,
    "security.md": routes.write_audiences,
}
"""Page to the function that returns the page's listings by name."""


def write_page(name: str) -> str:
    """Return the text of a page with new listings."""
    return fill((MANUAL / name).read_text(encoding="utf-8"), PAGES[name]())


def fill(text: str, listings: Mapping[str, str]) -> str:
    """Return the text with these listings. Raises ValueError unless the text marks the place of each listing once."""
    marked = LISTING.findall(text)
    if sorted(marked) != sorted(listings):
        raise ValueError(f"the page marks the listings {sorted(marked)}, the code has {sorted(listings)}")
    return LISTING.sub(lambda match: f"<!--reference:{match[1]}-->\n\n{listings[match[1]]}\n\n<!--end-->", text)
