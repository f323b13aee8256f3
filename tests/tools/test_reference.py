"""The listings of the manual's reference pages are those of the code."""

import pytest

from tools.reference.markdown import link, table
from tools.reference.pages import MANUAL, PAGES, fill, write_page


@pytest.mark.parametrize("name", PAGES)
def test_pages_list_what_the_code_has(name: str) -> None:
    """Each reference page stands as `make reference` writes it."""
    assert (MANUAL / name).read_text(encoding="utf-8") == write_page(name), "run make reference"


def test_a_listing_without_a_place_is_an_error() -> None:
    """A section or a group of routes that the page does not mark is refused, and so is a mark without a listing."""
    page = "# Keys\n\n<!--reference:server-->\n<!--end-->\n"
    assert fill(page, {"server": "| key |"}) == "# Keys\n\n<!--reference:server-->\n\n| key |\n\n<!--end-->\n"
    assert fill(fill(page, {"server": "| key |"}), {"server": "none"}) == fill(page, {"server": "none"})
    for listings in ({"server": "", "store": ""}, {}):
        with pytest.raises(ValueError, match="server"):
            fill(page, listings)


def test_citations_become_links() -> None:
    """A page that the code cites is a link, also with a heading or in a folder; a | in a text does not end its cell."""
    assert link("See docs/ingest.md#outcomes, docs/integrations/llm-d.md.") == (
        "See [ingest](ingest.md#outcomes), [llm-d](integrations/llm-d.md)."
    )
    assert table(("a", "b"), [("1", "x | y")]) == "| a | b |\n|---|---|\n| 1 | x \\| y |"
