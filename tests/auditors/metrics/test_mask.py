"""LMS, SS and ICAT, from replies and from sentence scores, against the papers' own numbers."""

import csv
import gzip
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from auditors.metrics.suite_scores import (
    SentenceScores,
    idealised_cat_score,
    language_modelling_score,
    printed_icat,
    scores_over_terms,
    stereotype_score,
)
from tests.support.published import DATA, TABLES, needs_data, needs_tables

CELL_SIZES = {
    "gender/intra": 255,
    "gender/inter": 242,
    "religion/intra": 79,
    "religion/inter": 78,
    "race/intra": 962,
    "race/inter": 976,
    "profession/intra": 810,
    "profession/inter": 827,
}
KNOWN_DISCREPANCIES = {("LL-8B", "religion/intra", "SS"): ("X-NLF-1", "60000", "60.00")}


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


def table_8() -> dict[tuple[str, str, str], str]:
    with (TABLES / "nollm_table8_stereoset.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["model"], row["axis_or_category"], row["metric"]): row["value"] for row in rows}


def corrected_table_8() -> dict[tuple[str, str, str], str]:
    table = table_8()
    for key, (_, printed, intended) in KNOWN_DISCREPANCIES.items():
        assert table[key] == printed, "the known discrepancy is no longer in the table"
        table[key] = intended
    return table


@needs_tables
def test_all_32_printed_icat_cells_follow_from_lms_and_ss() -> None:
    """Table 8 holds no ICAT that its own LMS and SS do not give, but for X-NLF-1 (60000 stands for 60.00)."""
    table = corrected_table_8()
    cells = [key[:2] for key in table if key[2] == "ICAT"]

    wrong = [
        (cell, str(printed_icat(table[*cell, "LMS"], table[*cell, "SS"])), table[*cell, "ICAT"])
        for cell in cells
        if str(printed_icat(table[*cell, "LMS"], table[*cell, "SS"])) != table[*cell, "ICAT"]
    ]

    assert len(cells) == 32
    assert wrong == []


@needs_tables
@pytest.mark.parametrize("discrepancy", sorted(KNOWN_DISCREPANCIES.values()))
def test_known_discrepancies_are_real(discrepancy: tuple[str, str, str]) -> None:
    """As printed, a listed cell gives another ICAT than the one beside it."""
    key = next(key for key, value in KNOWN_DISCREPANCIES.items() if value == discrepancy)
    table = table_8()

    assert str(printed_icat(table[*key[:2], "LMS"], table[key])) != table[*key[:2], "ICAT"]


@needs_tables
def test_printed_lms_and_ss_are_exact_fractions() -> None:
    """For every cell there are whole counts k of N and s of k that round to LMS and SS: SS divides by meaningful."""
    table = corrected_table_8()
    without_counts = []
    for model, cell, metric in table:
        if metric == "LMS" and not has_counts(table[model, cell, "LMS"], table[model, cell, "SS"], CELL_SIZES[cell]):
            without_counts.append((model, cell))

    assert without_counts == []


def has_counts(lms: str, ss: str, total: int) -> bool:
    return any(
        rounded(meaningful, total) == lms and any(rounded(s, meaningful) == ss for s in range(meaningful + 1))
        for meaningful in range(1, total + 1)
    )


def rounded(part: int, whole: int) -> str:
    return str((Decimal(100) * part / whole).quantize(Decimal("0.01"), ROUND_HALF_UP))


TABLE_11_SIZES = {
    "gender": 346,
    "religion": 105,
    "race": 516,
    "nationality": 159,
    "age": 87,
    "physical_appearance": 123,
    "socio_economic": 172,
}
TABLE_11_MODELS = ("TL-1.1B", "PHI-3.5B", "MST-7B", "LL-8B")
LAST_DIGIT_DIFFERS = {
    ("PHI-3.5B", "gender"): "63.70",
    ("MST-7B", "gender"): "68.23",
    ("PHI-3.5B", "religion"): "54.25",
    ("MST-7B", "religion"): "68.42",
    ("LL-8B", "religion"): "86.96",
    ("LL-8B", "nationality"): "76.96",
    ("LL-8B", "age"): "71.22",
    ("PHI-3.5B", "socio_economic"): "68.14",
}
"""X-NLF-16: ICAT as it follows from the printed LMS and SS."""


def table_11_cells(*known: str) -> list[object]:
    """All 28 cells of Table 11; those in which a known discrepancy shows must fail, and carry its id."""
    cells: list[object] = []
    for model, axis in itertools.product(TABLE_11_MODELS, TABLE_11_SIZES):
        found = ""
        if (model, axis) == ("LL-8B", "gender"):
            found = "X-NLF-3"
        elif (model, axis) in LAST_DIGIT_DIFFERS:
            found = "X-NLF-16"
        marks = [pytest.mark.xfail(reason=found, strict=True)] if found in known else []
        name = f"{model}-{axis}"
        cells.append(pytest.param(model, axis, marks=marks, id=f"{found}-{name}" if marks else name))
    return cells


def table_11(model: str, axis: str) -> tuple[str, str, str]:
    """LMS, SS and ICAT as printed."""
    with (TABLES / "nollm_table11_crows_pairs.csv").open(encoding="utf-8") as file:
        rows = {(row["model"], row["axis_or_category"], row["metric"]): row["value"] for row in csv.DictReader(file)}
    assert len(rows) == 84
    return (rows[model, axis, "LMS"], rows[model, axis, "SS"], rows[model, axis, "ICAT"])


@needs_tables
@pytest.mark.parametrize(("model", "axis"), table_11_cells("X-NLF-3", "X-NLF-16"))
def test_table_11_icat_to_the_printed_digit(model: str, axis: str) -> None:
    """ICAT follows from the printed LMS and SS to the last digit, but for the nine listed cells."""
    lms, ss, icat = table_11(model, axis)

    assert str(printed_icat(lms, ss)) == icat


@needs_tables
@pytest.mark.parametrize(("model", "axis"), table_11_cells("X-NLF-3"))
def test_table_11_icat_within_two_hundredths(model: str, axis: str) -> None:
    """27 of 28 cells agree within 0.02; gender of LL-8B does not."""
    lms, ss, icat = table_11(model, axis)

    assert abs(printed_icat(lms, ss) - Decimal(icat)) <= Decimal("0.02")


@needs_tables
@pytest.mark.parametrize(("cell", "recomputed"), LAST_DIGIT_DIFFERS.items(), ids=map("-".join, LAST_DIGIT_DIFFERS))
def test_x_nlf_16_is_real(cell: tuple[str, str], recomputed: str) -> None:
    """Each listed cell gives the listed other number."""
    lms, ss, _ = table_11(*cell)

    assert str(printed_icat(lms, ss)) == recomputed


@needs_tables
@pytest.mark.parametrize(("model", "axis"), table_11_cells("X-NLF-3"))
def test_table_11_lms_and_ss_are_shares_of_all_replies(model: str, axis: str) -> None:
    """LMS is k/N and SS is s/N for whole k and s, within the last printed digit, with the merged sizes N."""
    lms, ss, _ = table_11(model, axis)
    total = TABLE_11_SIZES[axis]

    for printed in (lms, ss):
        share = Decimal(printed) * total / 100
        assert abs(round(share) * Decimal(100) / total - Decimal(printed)) <= Decimal("0.01")


@needs_tables
def test_table_11_ss_cannot_be_a_share_of_meaningful_replies() -> None:
    """Read so, ICAT misses every printed cell by 0.2 to 29 points, 27 of 28 by more than half a point."""
    misses = []
    for model, axis in itertools.product(TABLE_11_MODELS, TABLE_11_SIZES):
        lms, ss, icat = table_11(model, axis)
        total = TABLE_11_SIZES[axis]
        meaningful, stereotype = (round(Decimal(printed) * total / 100) for printed in (lms, ss))
        counts = (stereotype, meaningful - stereotype, total)
        score = float(idealised_cat_score(language_modelling_score(*counts), stereotype_score(*counts)))
        misses.append(abs(score - float(icat)))

    assert 0.1 < min(misses) < max(misses) < 30
    assert sum(miss > 0.5 for miss in misses) == 27


def test_x_nlf_3_as_it_was_meant() -> None:
    """LMS 89.88 (311 of 346) in place of 88.88 gives the printed ICAT of 88.33 within the table's 0.02, not 87.33."""
    assert rounded(311, 346) == "89.88"
    assert abs(printed_icat("89.88", "50.87") - Decimal("88.33")) <= Decimal("0.02")
    assert str(printed_icat("88.88", "50.87")) == "87.33"


def published_items(predictions: str) -> Iterator[tuple[str, str, SentenceScores]]:
    """(kind, axis, scores) of every item, from the authors' sentence scores."""
    with gzip.open(DATA / "stereoset" / predictions) as file:
        raw = json.load(file)
    with gzip.open(DATA / "stereoset" / "dev_nolabels.json.gz") as file:
        data = json.load(file)["data"]
    for kind in ("intrasentence", "intersentence"):
        scores = {entry["id"]: entry["score"] for entry in raw[kind]}
        for item in data[kind]:
            by_role = {sentence["gold_label"]: scores[sentence["id"]] for sentence in item["sentences"]}
            yield (
                kind,
                item["bias_type"],
                SentenceScores(item["target"], by_role["stereotype"], by_role["anti-stereotype"], by_role["unrelated"]),
            )


@needs_data
@pytest.mark.parametrize(
    ("model", "predictions"),
    [("gpt2", "predictions_gpt2_ModelNSP_GPT2LM.json.gz"), ("EnsembleModel", "predictions_EnsembleModel_.json.gz")],
)
def test_published_scores_are_reproduced(model: str, predictions: str) -> None:
    """The authors' LM, SS and ICAT of every cell follow from their sentence scores, to nine decimals."""
    published = json.loads((DATA / "stereoset" / "published_scores.json").read_text(encoding="utf-8"))[model]
    cells: dict[tuple[str, str], list[SentenceScores]] = defaultdict(list)
    for kind, axis, scores in published_items(predictions):
        for key in ((kind, axis), (kind, "overall"), ("overall", "overall")):
            cells[key].append(scores)

    for (kind, axis), items in cells.items():
        expected = published["overall"] if kind == "overall" else published[kind][axis]
        found = scores_over_terms(items)
        assert (found.lms, found.ss, found.icat) == pytest.approx(
            (expected["LM Score"], expected["SS Score"], expected["ICAT Score"]), abs=1e-9
        ), (kind, axis)


def test_a_tie_counts_as_anti_stereotype() -> None:
    """Equal sentence scores of stereotype and anti-stereotype are no preference for the stereotype."""
    found = scores_over_terms([SentenceScores("t", 1.0, 1.0, 0.0)])

    assert (found.lms, found.ss, found.icat) == (100.0, 0.0, 0.0)


def test_terms_weigh_the_same_whatever_their_number_of_items() -> None:
    """One item of term a (stereotype) and three of term b (anti) give SS = (100 + 0) / 2, not 25."""
    items = [SentenceScores("a", 2, 1, 0), *[SentenceScores("b", 1, 2, 0)] * 3]

    assert scores_over_terms(items).ss == 50.0


def test_no_items_are_undefined() -> None:
    """An empty selection has no score."""
    assert math.isnan(scores_over_terms([]).lms)
