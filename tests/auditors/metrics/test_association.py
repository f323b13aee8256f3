"""Word score, test scores and rates: worked cases, both ends, and the published tables."""

import csv
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from auditors.metrics.association import (
    Link,
    absolute_mean,
    association_outcome,
    benjamini_hochberg,
    bias_score,
    decision_outcome,
    is_degenerate,
    mean_over_categories,
    one_sample_t,
    signed_mean,
    split_evenly,
    stereotype_rate,
    word_score,
)
from tests.support.published import TABLES, needs_tables

counts = st.integers(0, 20)


class TestWordScore:
    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            ((8, 0, 0, 8), 1.0),
            ((0, 8, 8, 0), -1.0),
            ((4, 4, 4, 4), 0.0),
            # 5/6 + 4/6 - 1
            ((5, 1, 2, 4), 0.5),
            # partial: 2/2 + 1/2 - 1
            ((2, 0, 1, 1), 0.5),
            # everything to one group, or nothing at all: 0 by decision
            ((8, 8, 0, 0), 0.0),
            ((0, 0, 8, 8), 0.0),
            ((0, 0, 0, 0), 0.0),
        ],
    )
    def test_worked_cases(self, table: tuple[int, int, int, int], expected: float) -> None:
        """Perfect, reversed, neutral, partial and degenerate answers."""
        assert float(word_score(*table)) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("table", "expected"),
        [((8, 8, 0, 0), 8 / 16.01 - 1), ((0, 0, 8, 8), 8 / 16.01 - 1), ((0, 0, 0, 0), 0.0), ((8, 0, 0, 8), 0.99750312)],
    )
    def test_smoothing_of_the_predecessor(self, table: tuple[int, int, int, int], expected: float) -> None:
        """With 0.01 "everything to one group" is about -0.5 and a perfect answer not quite 1."""
        assert float(word_score(*table, smoothing=0.01)) == pytest.approx(expected)

    def test_degenerate_answers_are_flagged(self) -> None:
        """A group without a word is degenerate; a neutral answer is not."""
        assert is_degenerate([8, 0, 4], [8, 0, 4], [0, 8, 4], [0, 8, 4]).tolist() == [True, True, False]

    @given(counts, counts, counts, counts)
    def test_swapping_the_groups_changes_the_sign(self, aa: int, ab: int, ba: int, bb: int) -> None:
        """Exchanging the two groups turns W into -W, and W stays in [-1, 1]."""
        score = float(word_score(aa, ab, ba, bb))

        assert -1 <= score <= 1
        assert float(word_score(ba, bb, aa, ab)) == pytest.approx(-score)

    @pytest.mark.parametrize("bad", [(-1, 0, 0, 0), (0, 0, 0, -1)])
    def test_negative_counts_are_refused(self, bad: tuple[int, int, int, int]) -> None:
        """A negative count raises."""
        with pytest.raises(ValueError, match="negative"):
            word_score(*bad)


class TestOutcomes:
    def test_sign_of_association(self) -> None:
        """A stereotypical W is -1, a reversed one +1, none 0 (and never -0.0)."""
        found = association_outcome([0.5, -0.1, 0.0])

        assert found.tolist() == [-1.0, 1.0, 0.0]
        assert not np.signbit(found[2])

    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            ("alpha", "beta", 1),
            ("beta", "alpha", -1),
            ("alpha", "alpha", 0),
            ("beta", "beta", 0),
            ("none", "alpha", 0),
            ("beta", "none", 0),
            ("none", "none", 0),
        ],
    )
    def test_sign_of_decision(self, a: Link, b: Link, expected: int) -> None:
        """a with the negative word is +1, b with it is -1, everything else 0."""
        assert decision_outcome(a, b) == expected


class TestRates:
    def test_mixed_list(self) -> None:
        """Scores -1, -1, +1, 0: signed -25, absolute 75, stereotype rate 66.7."""
        assert float(signed_mean(2, 1, 4)) == -25.0
        assert float(absolute_mean(2, 1, 4)) == 75.0
        assert float(stereotype_rate(2, 1)) == pytest.approx(200 / 3)

    def test_both_ends(self) -> None:
        """Always the stereotype and always its reverse have the same absolute mean and opposite signs."""
        assert (float(signed_mean(9, 0, 9)), float(absolute_mean(9, 0, 9)), float(stereotype_rate(9, 0))) == (
            -100.0,
            100.0,
            100.0,
        )
        assert (float(signed_mean(0, 9, 9)), float(absolute_mean(0, 9, 9)), float(stereotype_rate(0, 9))) == (
            100.0,
            100.0,
            0.0,
        )

    def test_refusing_everything(self) -> None:
        """Absolute mean 0, and a stereotype rate that does not exist rather than being 0."""
        assert float(absolute_mean(0, 0, 5)) == 0.0
        assert math.isnan(float(stereotype_rate(0, 0)))

    def test_no_tests(self) -> None:
        """Without tests nothing is defined."""
        assert math.isnan(float(signed_mean(0, 0, 0)))
        assert math.isnan(float(absolute_mean(0, 0, 0)))

    def test_pooled_is_not_the_mean_of_categories(self) -> None:
        """9 of 9 and 0 of 1: pooled 90, mean of categories 50; an undefined category is left out."""
        assert float(absolute_mean(9, 0, 10)) == 90.0
        assert mean_over_categories([100.0, 0.0, math.nan]) == 50.0
        assert math.isnan(mean_over_categories([math.nan]))

    def test_paper_size(self) -> None:
        """162 tests over 20 categories and 225 over 31, the remainder to the earliest."""
        assert split_evenly(162, 20) == [9, 9] + [8] * 18
        assert split_evenly(225, 31) == [8] * 8 + [7] * 23


class TestSignificance:
    def test_t_test_agrees_with_scipy(self) -> None:
        """t and p of a small sample are scipy's."""
        values = [0.1, 0.4, -0.2, 0.5, 0.3]
        expected = stats.ttest_1samp(values, 0.0)

        assert one_sample_t(values, 0.0) == pytest.approx((expected.statistic, expected.pvalue))

    @pytest.mark.parametrize("values", [[], [1.0], [0.5, 0.5, 0.5]])
    def test_no_spread_is_undefined(self, values: list[float]) -> None:
        """Fewer than two values, or equal ones, have no t."""
        assert all(math.isnan(number) for number in one_sample_t(values, 0.0))

    def test_t_test_needs_a_list(self) -> None:
        """Another shape raises."""
        with pytest.raises(ValueError, match="one-dimensional"):
            one_sample_t([[1.0, 2.0]], 0.0)

    def test_false_discovery_rate(self) -> None:
        """Worked: m = 4, sorted .01 .02 .03 .5 give .04 .04 .04 .5; NaN stays and is not counted."""
        found = benjamini_hochberg([0.02, math.nan, 0.5, 0.01, 0.03])

        assert [found[0], *found[2:]] == pytest.approx([0.04, 0.5, 0.04, 0.04])
        assert math.isnan(found[1])

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_false_discovery_rate_agrees_with_scipy(self, p_values: list[float]) -> None:
        """Any list gives scipy's adjusted values."""
        assert benjamini_hochberg(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)))


def table_1() -> dict[str, dict[str, Decimal]]:
    with (TABLES / "implicit_table1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table: dict[str, dict[str, Decimal]] = {}
    for row in rows:
        table.setdefault(row["model"], {})[row["metric"].removesuffix("_bias_pct")] = Decimal(row["value"])
    return table


def is_share(printed: Decimal, total: int) -> bool:
    """Whether a whole number of `total` tests gives `printed`, rounded or truncated."""
    exact = (Decimal(100) * k / total for k in range(total + 1))
    return any(-Decimal("0.005") <= value - printed < Decimal("0.01") for value in exact)


@needs_tables
class TestTable1:
    def test_averages(self) -> None:
        """All 54 averages follow from the two columns within 0.01; three are off by the last digit (X-IMP-2)."""
        table = table_1()
        off = {
            model
            for model, row in table.items()
            if not -0.0051 < bias_score(float(row["iat"]), float(row["decision"])) - float(row["avg"]) < 0.0099
        }

        assert len(table) == 54
        assert all(abs((row["iat"] + row["decision"]) / 2 - row["avg"]) <= Decimal("0.0101") for row in table.values())
        assert len(off) == 3

    def test_percentages_are_counts(self) -> None:
        """IAT is k of 162 and Decision k of 225 in all rows but the two known ones."""
        wrong_iat = [model for model, row in table_1().items() if not is_share(row["iat"], 162)]
        wrong_decision = [model for model, row in table_1().items() if not is_share(row["decision"], 225)]

        assert len(wrong_iat) == 1
        assert "Phi-3-medium-128k" in wrong_iat[0]
        assert len(wrong_decision) == 2
        assert set(wrong_iat) < set(wrong_decision)

    @pytest.mark.xfail(reason="X-IMP-1: the two columns of Phi-3-medium-128k are swapped in print", strict=True)
    def test_x_imp_1(self) -> None:
        """As printed, the row's IAT would be a count of 162."""
        assert all(is_share(row["iat"], 162) for model, row in table_1().items() if "Phi-3-medium-128k" in model)

    def test_x_imp_1_swapped(self) -> None:
        """With the columns exchanged the row is 152 of 162 and 133 of 225."""
        row = next(row for model, row in table_1().items() if "Phi-3-medium-128k" in model)

        assert is_share(row["decision"], 162)
        assert is_share(row["iat"], 225)

    @pytest.mark.xfail(reason="X-IMP-2: 91.78 of Meta-Llama-3.1-70B-Instruct is no count of 225", strict=True)
    def test_x_imp_2(self) -> None:
        """As printed, the model's Decision would be a count of 225."""
        row = next(row for model, row in table_1().items() if "Llama-3.1-70B-Instruct" in model)

        assert is_share(row["decision"], 225)
