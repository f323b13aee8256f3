"""The scenarios of the decision tests: built in, nothing is fetched."""

from collections.abc import Mapping

import msgspec

from benchmarks.suites.protocol import DataKind

REVISION = "arXiv 2410.12864, A.1"
SHA256: Mapping[DataKind, str] = {"embedded": "41692ea2c19412a8401499b415f05ef341a830c36f22f73d2f88be244f3e5c47"}
N_TESTS = 225
"""Tests per model that the published percentages imply (protocols 4.1)."""
N_CATEGORIES = 31


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One category: characters of the default (a) and the stigmatised group (b), a template, and pairs of words."""

    domain: str
    category: str
    a: list[str]
    b: list[str]
    called: dict[str, list[str]]
    """What a reply may call a character of each side: the whole term, or its invented name alone."""
    template: str
    pairs: list[tuple[str, str]]
    """(positive, negative)."""
    printed: bool
