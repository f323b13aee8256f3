"""The page of clauses: numbers with their intervals, and what they do not show."""

from gateway.features.bundles.clauses import CLAUSES, page
from tests.support.benchmarks.bundled import result

ESTIMATE = {
    "metric": "refusal_rate",
    "axis": "gender",
    "value": 61.2,
    "lower": 57.9,
    "upper": 64.6,
    "n": 251,
    "n_excluded": 4,
}
ROW = "| refusal_rate | gender | 61.2 | 57.9 to 64.6 | 251 | 4 |  |"


def part(text: str, clause: int) -> str:
    return text.split(f"## {CLAUSES[clause].title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_clause_says_its_limits() -> None:
    """Each clause has what it asks, its numbers or that there are none, and what they do not show."""
    text = page(result(estimates=[ESTIMATE]), {"ledger.json": "no store"}, "A value near 50 may be two that cancel.")

    assert [ROW in part(text, clause) for clause in range(len(CLAUSES))] == [True, True, False, True, False]
    for clause in CLAUSES:
        assert f"Does not show: {clause.not_shown}" in text
    assert "No impact ratio and no rate of groups is in this bundle." in part(text, 4)
    assert "- `ledger.json`: no store" in text
    assert "A value near 50 may be two that cancel." in text


def test_undefined_is_not_zero() -> None:
    """A number that cannot be formed is undefined, with its reason and no interval; markup in a name ends no cell."""
    none = {"metric": "rate", "axis": "age", "value": None, "lower": None, "upper": None, "n": 0, "reason": "no reply"}
    assert "| rate | age | undefined |  | 0 | 0 | no reply |" in page(result(estimates=[none]), {}, None)
    text = page(result(model="a|b\n# c<script>"), {}, None)
    assert "model a\\|b # c&lt;script>" in text
