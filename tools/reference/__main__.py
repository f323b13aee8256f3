"""Writes the listings of the reference pages in docs/: `make reference`."""

from tools.reference.pages import MANUAL, PAGES, write_page

for name in PAGES:
    (MANUAL / name).write_text(write_page(name), encoding="utf-8")
