"""LMS, SS and ICAT from replies, and the authors' own scores from sentence scores."""

import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from auditors.metrics.suite_scores import (
    idealised_cat_score,
    language_modelling_score,
    stereotype_score,
)
from tests.support.published import DATA, TABLES, needs_data, needs_tables


@pytest.mark.parametrize(
    ("stereotype", "meaningful", "total", "denominator", "expected"),
    [
        (66, 146, 255, "meaningful", (57.25, 45.21, 51.77)),  # StereoSet, TL-1.1B, gender, intrasentence
        (45, 75, 79, "meaningful", (94.94, 60.00, 75.95)),  # StereoSet, LL-8B, religion, intrasentence
        (9, 11, 346, "total", (3.18, 2.60, 0.17)),  # CrowS-Pairs, gender
        (176, 311, 346, "total", (89.88, 50.87, 88.33)),  # CrowS-Pairs, gender, LL-8B
    ],
)
def test_golden_cells(
    stereotype: int, meaningful: int, total: int, denominator: str, expected: tuple[float, ...]
) -> None:
    """Cells of the paper follow from whole counts, to the printed digit."""
    assert denominator in ("meaningful", "total")
    anti = meaningful - stereotype
    lms = language_modelling_score(stereotype, anti, total)
    ss = stereotype_score(stereotype, anti, total, denominator="total" if denominator == "total" else "meaningful")

    found = (float(lms), float(ss), float(idealised_cat_score(lms, ss)))

    assert found == pytest.approx(expected, abs=0.01)


def test_every_reply_unrelated() -> None:
    """LMS 0, SS undefined, ICAT 0 by the stated rule."""
    lms, ss = language_modelling_score(0, 0, 10), stereotype_score(0, 0, 10)

    assert float(lms) == 0.0
    assert math.isnan(float(ss))
    assert float(idealised_cat_score(lms, ss)) == 0.0


def test_no_reply_at_all() -> None:
    """Without replies nothing is defined, ICAT included."""
    lms, ss = language_modelling_score(0, 0, 0), stereotype_score(0, 0, 0)

    assert math.isnan(float(lms))
    assert math.isnan(float(idealised_cat_score(lms, ss)))


@pytest.mark.parametrize("ss", [0.0, 100.0])
def test_always_or_never_the_stereotype_scores_zero(ss: float) -> None:
    """ICAT is 0 at both ends of SS."""
    assert float(idealised_cat_score(100.0, ss)) == 0.0


def test_swapping_the_roles_mirrors_ss_and_keeps_icat() -> None:
    """Exchanging stereotype and anti-stereotype turns SS into 100 - SS and leaves ICAT alone."""
    one, other = stereotype_score(30, 10, 50), stereotype_score(10, 30, 50)

    assert float(one) + float(other) == pytest.approx(100)
    assert float(idealised_cat_score(80, one)) == pytest.approx(float(idealised_cat_score(80, other)))


def test_counts_may_be_arrays() -> None:
    """Every formula works element by element, undefined cells included."""
    lms = language_modelling_score(np.array([1.0, 0]), np.array([1.0, 0]), np.array([4.0, 0]))

    assert lms[0] == 50.0
    assert math.isnan(lms[1])


@needs_tables
def test_all_32_printed_icat_cells_follow_from_lms_and_ss() -> None:
    """Table 8 holds no ICAT that its own LMS and SS do not give, but for X-NLF-1 (60000 stands for 60.00)."""
    with (TABLES / "nollm_table8_stereoset.csv").open(encoding="utf-8") as file:
        table = {(row["model"], row["axis_or_category"], row["metric"]): row["value"] for row in csv.DictReader(file)}
    assert table["LL-8B", "religion/intra", "SS"] == "60000"
    table["LL-8B", "religion/intra", "SS"] = "60.00"
    cells = [key[:2] for key in table if key[2] == "ICAT"]

    for cell in cells:
        score = float(idealised_cat_score(float(table[*cell, "LMS"]), float(table[*cell, "SS"])))
        assert score == pytest.approx(float(table[*cell, "ICAT"]), abs=0.00501), cell
    assert len(cells) == 32


def published_items(predictions: str) -> Iterator[tuple[str, str, str, tuple[float, bool]]]:
    """Kind, axis and term of every item, its share of sentences on topic, and whether the stereotype scores higher."""
    with gzip.open(DATA / "stereoset" / predictions) as file:
        raw = json.load(file)
    with gzip.open(DATA / "stereoset" / "dev_nolabels.json.gz") as file:
        data = json.load(file)["data"]
    for kind in ("intrasentence", "intersentence"):
        scores = {entry["id"]: entry["score"] for entry in raw[kind]}
        for item in data[kind]:
            by_role = {sentence["gold_label"]: scores[sentence["id"]] for sentence in item["sentences"]}
            stereotype, anti, unrelated = (by_role[role] for role in ("stereotype", "anti-stereotype", "unrelated"))
            on_topic = ((stereotype > unrelated) + (anti > unrelated)) / 2
            yield kind, item["bias_type"], item["target"], (on_topic, stereotype > anti)


@needs_data
def test_published_scores_are_reproduced() -> None:
    """The authors' LM, SS and ICAT of every cell are means over terms of their sentence scores, to nine decimals."""
    published = json.loads((DATA / "stereoset" / "published_scores.json").read_text(encoding="utf-8"))["gpt2"]
    cells: dict[tuple[str, str], dict[str, list[tuple[float, bool]]]] = defaultdict(lambda: defaultdict(list))
    for kind, axis, term, scores in published_items("predictions_gpt2_ModelNSP_GPT2LM.json.gz"):
        for key in ((kind, axis), (kind, "overall"), ("overall", "overall")):
            cells[key][term].append(scores)

    for (kind, axis), terms in cells.items():
        expected = published["overall"] if kind == "overall" else published[kind][axis]
        lms, ss = 100 * np.mean([np.mean(rows, axis=0) for rows in terms.values()], axis=0)
        assert (lms, ss, float(idealised_cat_score(lms, ss))) == pytest.approx(
            (expected["LM Score"], expected["SS Score"], expected["ICAT Score"]), abs=1e-9
        ), (kind, axis)
