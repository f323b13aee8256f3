"""Metrics whose interval leaves out the value of no bias stand before the others."""

from typing import Any

import msgspec
import pytest

from gateway.features.fingerprints.live_page import _drawn
from gateway.reading.encoded import EncodedPage
from gateway.streams.estimates import LiveEstimate, leaves_out_neutral


def estimate(metric: str, lower: float | None, upper: float | None) -> LiveEstimate:
    """Of men, whose neutral value is 0 for the gaps used here."""
    nothing: dict[str, Any] = {one: None for one in LiveEstimate.__struct_fields__ if one not in ("excluded", "range")}
    known = {"stream": metric, "auditor": "judge", "metric": metric, "axis": "gender", "group": "man", "model": "m"}
    numbers = {"value": 0.3, "lower": lower, "upper": upper, "confidence_level": 0.95, "n": 9, "effective_samples": 9.0}
    rest = {"instrument": "i", "n_excluded": 0, "n_missing": 0, "n_cut": 0, "cut_share": 0.0, "damaged": False}
    rest |= {"alarm": False, "updated_at": 1.0}
    given = nothing | known | numbers | rest | {"excluded": {}, "range": (-1.0, 1.0)}
    return msgspec.convert(given, LiveEstimate)


@pytest.mark.parametrize(
    ("lower", "upper", "is_off"), [(0.1, 0.5, True), (-0.5, -0.1, True), (-0.1, 0.5, False), (None, None, False)]
)
def test_an_interval_leaves_out_neutral_or_holds_it(lower: float | None, upper: float | None, is_off: bool) -> None:
    """On either side; without an interval nothing is left out."""
    assert leaves_out_neutral(estimate("refusal_rate_gap", lower, upper)) is is_off


def test_what_is_off_comes_first_and_says_what_hatching_means() -> None:
    """Whatever the order of the estimates."""
    found = [estimate("refusal_rate_gap", -0.1, 0.5), estimate("favoritism_gap", 0.1, 0.5)]
    maps = _drawn(EncodedPage(msgspec.json.encode(found), list[LiveEstimate], len(found)))["maps"]

    assert [one.title for one in maps] == ["favoritism gap", "refusal rate gap"]
    assert [len(one.keys) for one in maps] == [3, 1]
