"""LTF-TEST: scripted models with known answers, and the data of the heat maps."""

import pytest

from benchmarks.suites.common.estimation import estimate, point
from benchmarks.suites.ltf_test.scores import ALL_REFUSED, NO_ESSAY, NO_PAIR
from benchmarks.suites.protocol import Item, Parsed
from tests.support.benchmarks.ltf import FAILED, REFUSED, cells_of, find, items, judged, ok, on_axis, value


class TestKnownModels:
    """Scripted essays with known numbers."""

    def test_always_favours_the_group_asked_about(self) -> None:
        """F is 2 everywhere; no direction differs from the other; every essay takes a side."""
        cells = cells_of(judged(lambda item: ok(2), items("paper")))

        assert {point(cell) for cell in cells if cell.metric == "favoritism" and cell.n} == {2.0}
        for metric in ("pair_favoritism", "group_favoritism", "dob_text", "dob_table"):
            assert {point(cell) for cell in cells if cell.metric == metric and cell.n} == {0.0}
        assert value(cells, "absolute_discrimination") == 1.0

    def test_takes_one_side(self) -> None:
        """Always for women: F(w,m) = 2, F(m,w) = -1, PairFav -3, variance 9, table SD of [0.5, -1, 2] = 1.225."""
        cells = cells_of(judged(lambda item: ok(2 if item.groups[0] == "woman" else -1), on_axis("gender")))

        assert value(cells, "favoritism", "gender", "woman", "man") == 2.0
        assert value(cells, "favoritism", "gender", "man", "woman") == -1.0
        assert value(cells, "pair_favoritism", "gender", "man", "woman") == -3.0
        assert value(cells, "group_favoritism", "gender", "woman") == 3.0
        assert value(cells, "dob_text", "gender") == 9.0
        assert value(cells, "dob_table", "gender") == 1.225
        assert value(cells, "dob_table") == 1.225

    def test_refuses_everything_by_the_paper_s_rule(self) -> None:
        """F = 0, AbsDisc = 0, refusal rate 100, and every score says that refusals made it."""
        cells = cells_of(judged(lambda item: REFUSED, items("paper")), "paper")

        assert {point(cell) for cell in cells if cell.metric == "favoritism" and cell.n} == {0.0}
        assert value(cells, "absolute_discrimination") == 0.0
        assert value(cells, "refusal_rate") == 100.0
        assert value(cells, "refusal_rate", "race", "black") == 100.0
        scored = [cell for cell in cells if cell.n and cell.axis and cell.metric != "refusal_rate"]
        assert {cell.extra["note"] for cell in scored} == {ALL_REFUSED}

    def test_a_refused_direction_has_no_favouritism(self) -> None:
        """Refusing to praise men alone: F of women alone, and no difference, which would be about nothing."""
        cells = cells_of(judged(lambda i: REFUSED if i.groups[0] == "man" else ok(1), on_axis("gender")))

        assert value(cells, "refusal_rate", "gender", "man") == 100.0
        assert value(cells, "refusal_rate", "gender") == 50.0
        assert value(cells, "favoritism", "gender", "woman", "man") == 1.0
        assert value(cells, "absolute_discrimination", "gender") == 0.0
        for place in (("pair_favoritism", "gender", "man", "woman"), ("group_favoritism", "gender", "man")):
            cell = find(cells, *place)
            assert (point(cell), cell.n, cell.undefined) == (None, 0, NO_PAIR)
            assert dict(cell.excluded) == {"refusal": 504, "unpaired": 504}
        assert {value(cells, metric, "gender") for metric in ("dob_text", "dob_table")} == {None}

    def test_judge_failures_are_in_no_denominator(self) -> None:
        """Replies that cannot be read and errors are left out and counted by name."""
        outcomes = [ok(1), ok(2), FAILED, Parsed("error")]
        chosen = on_axis("gender")
        cells = cells_of(judged(lambda item: outcomes[chosen.index(item) % 4], chosen))
        cell = find(cells, "absolute_discrimination", "gender")

        assert (cell.n, point(cell)) == (504, 0.5)
        assert dict(cell.excluded) == {"judge_failures": 252, "error": 252}
        assert dict(find(cells, "absolute_discrimination").excluded) == {"judge_failures": 252, "error": 252}

    def test_eval_subset(self) -> None:
        """A run of everything gives the annotated subset's numbers too; pairs absent there are undefined."""
        cells = cells_of(judged(lambda item: ok(2 if item.subset == "eval" else 0), items("paper")))

        assert value(cells, "absolute_discrimination", None, None, None, "eval") == 1.0
        assert value(cells, "absolute_discrimination") == pytest.approx(2226 / 11164)
        missing = estimate(find(cells, "favoritism", "sexual_orientation", "gays", "lesbians", "eval"), seed=0)
        assert (missing.value, missing.n, missing.reason) == (None, 0, NO_ESSAY)
        assert value(cells, "group_favoritism", "sexual_orientation", "lesbians", None, "eval") == 0.0

    def test_mean_over_axes(self) -> None:
        """Degrees of bias average axes, AbsDisc pools essays, and the control axis enters neither."""
        chosen = [*on_axis("gender"), *on_axis("religion"), *on_axis("nonce")]

        def answer(item: Item) -> Parsed:
            return ok(0) if item.axis == "religion" else ok(2 if item.groups[0] < item.groups[1] else -1)

        cells = cells_of(judged(answer, chosen))

        assert value(cells, "dob_text") == pytest.approx((9.0 + 0.0) / 2)
        assert value(cells, "absolute_discrimination") == pytest.approx(1008 / (1008 + 1848))
        assert find(cells, "dob_table").extra["n_axes"] == 2
        assert value(cells, "dob_text", "nonce") != 0.0
