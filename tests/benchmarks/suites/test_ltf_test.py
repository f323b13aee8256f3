"""LTF-TEST: scripted models with known answers, and the data of the heat maps."""

from collections.abc import Sequence

import pytest

from auditors.types import Estimate
from benchmarks.figures.heatmap import HeatMap, is_refused, is_sparse
from benchmarks.suites.common.estimation import estimate, point
from benchmarks.suites.ltf_test.data import GROUPS
from benchmarks.suites.ltf_test.figures import heat_map
from benchmarks.suites.ltf_test.scores import ALL_REFUSED, NO_ESSAY, NO_PAIR
from benchmarks.suites.protocol import Item, Observation, Parsed, ProtocolName
from tests.support.benchmarks.ltf import FAILED, REFUSED, SUITE, cells_of, find, items, judged, ok, on_axis, value


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

    @pytest.mark.parametrize("protocol", ["paper", "release"])
    def test_refuses_everything_by_the_paper_s_rule(self, protocol: ProtocolName) -> None:
        """F = 0, AbsDisc = 0, refusal rate 100, and every score says that refusals made it."""
        cells = cells_of(judged(lambda item: REFUSED, items("paper")), protocol)

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

    def test_refusals_are_counted_by_direction(self) -> None:
        """The same by the paper's rule shows as F = 0 against 1."""
        cells = cells_of(judged(lambda i: REFUSED if i.groups[0] == "man" else ok(1), on_axis("gender")), "paper")

        assert value(cells, "refusal_rate", "gender", "man") == 100.0
        assert value(cells, "refusal_rate", "gender", "woman") == 0.0
        assert value(cells, "refusal_rate", "gender") == 50.0
        assert value(cells, "pair_favoritism", "gender", "man", "woman") == -1.0
        assert find(cells, "favoritism", "gender", "man", "woman").extra["refusal_rate"] == 100.0
        assert "note" not in find(cells, "pair_favoritism", "gender", "man", "woman").extra

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

    def test_keys_differ(self) -> None:
        """No two cells share a name, and every metric is there with its scale."""
        cells = cells_of(judged(lambda item: ok(0), items()))

        assert len({cell.key for cell in cells}) == len(cells)
        assert {cell.metric for cell in cells} == set(SUITE.metrics) == set(SUITE.scales)

    def test_samples_of_one_question_share_a_cluster(self) -> None:
        """Two essays a question double n and leave the clusters as they are."""
        once = judged(lambda item: ok(1), on_axis("gender"))
        one, two = (find(cells_of(o), "favoritism", "gender", "man", "woman") for o in (once, once * 2))

        assert (one.n, two.n) == (504, 1008)
        assert one.clusters == two.clusters


class TestHeatMaps:
    """The data of the figures, from stored estimates."""

    def test_every_cell_has_its_mean_and_number(self) -> None:
        """Rows are the favoured group; the diagonal is blank; 504 essays each way on gender."""
        found = mapped(judged(lambda item: ok(2 if item.groups[0] == "woman" else -1), on_axis("gender")), "gender")

        assert (found.names, found.codes) == (("man", "woman"), ("MA", "WO"))
        assert [[None if e is None else (e.value, e.n) for e in row] for row in found.cells] == [
            [None, (-1.0, 504)],
            [(2.0, 504), None],
        ]

    def test_figures_show_the_paper_s_groups(self) -> None:
        """Long axes show five groups; CH is Christians on one axis and Chinese on another."""
        stored = stored_of(judged(lambda item: ok(0), items()))
        codes = {axis: heat_map(stored, axis).codes for axis in GROUPS}

        assert codes["religion"] == ("CH", "MU", "HI", "BU", "SP")
        assert codes["sexual_orientation"] == ("HE", "GA", "LE", "AS", "PA")
        assert codes["politics"] == ("RE", "DE", "LI", "CO", "PR")
        assert codes["nationality"] == ("AM", "RU", "CH", "IN", "BR")
        assert codes["race"] == ("WH", "BL", "AS", "LA")
        assert heat_map(stored, "politics").names[3] == "conservatives"

    def test_full_maps_tell_groups_apart(self) -> None:
        """With every group shown, in the axis's order, codes still differ within an axis."""
        stored = stored_of(judged(lambda item: ok(0), items()))
        for axis, groups in GROUPS.items():
            found = heat_map(stored, axis, full=True)

            assert found.names == tuple(group.name.replace("_", " ") for group in groups)
            assert len(set(found.codes)) == len(groups)

    def test_thin_cells_of_the_eval_subset(self) -> None:
        """Sexual orientation has cells of 1 to 4 essays there, and undefined ones where nothing was asked."""
        observations = judged(lambda item: ok(1), on_axis("sexual_orientation"))
        found = mapped(observations, "sexual_orientation", "eval")
        gays, lesbians = found.names.index("gays"), found.names.index("lesbians")
        blank, thin = found.cells[gays][lesbians], found.cells[0][gays]

        assert blank is not None
        assert (blank.value, blank.n, is_sparse(blank)) == (None, 0, False)
        assert thin is not None
        assert is_sparse(thin)
        assert {e.n for row in found.cells for e in row if e} <= {0, 1, 2, 3, 4, 5}

    def test_refusals_are_kept_beside(self) -> None:
        """A cell that is 0 by refusals, or has no value for them, says so."""
        essays = judged(lambda item: REFUSED, on_axis("gender"))
        numbers: dict[ProtocolName, float | None] = {"paper": 0.0, "corrected": None}
        for protocol, number in numbers.items():
            cell = mapped(essays, "gender", protocol=protocol).cells[0][1]

            assert cell is not None
            assert (cell.value, cell.extra["refusals"], is_refused(cell)) == (number, 504, True)


def stored_of(observations: Sequence[Observation], protocol: ProtocolName = "corrected") -> list[Estimate]:
    """The values as a result holds them, without their intervals."""
    return [
        Estimate(
            metric=cell.metric,
            axis=cell.axis,
            group=cell.group,
            reference=cell.reference,
            subset=cell.subset,
            value=point(cell),
            n=cell.n,
            extra={**cell.extra, "excluded": dict(cell.excluded)},
        )
        for cell in cells_of(observations, protocol)
    ]


def mapped(
    observations: Sequence[Observation], axis: str, subset: str | None = None, protocol: ProtocolName = "corrected"
) -> HeatMap:
    return heat_map(stored_of(observations, protocol), axis, subset)
