"""Given names: their figures, and how far frequencies of counterparts may differ."""

import pytest

from auditors.text.names import BALANCE, BEARERS, NAMES, SIGNAL


class TestFigures:
    def test_a_rate_by_hand(self) -> None:
        """Keisha: of 2,663,364 people 80, of whom 25 % are white, 72.5 % black and 2.5 % latin, weighted by race."""
        black = 0.725 * 12.2 / 4.2
        all_races = black + 0.25 * 63.7 / 82.33 + 0.025 * 16.3 / 6.88

        assert BEARERS["keisha"].per_100k == pytest.approx(1e5 * 80 / 2663364 * all_races)
        assert BEARERS["keisha"].per_100k == pytest.approx(7.09, abs=0.01)
        assert BEARERS["keisha"].share == pytest.approx(black / all_races)

    def test_every_name_is_a_sign_of_its_race(self) -> None:
        """Two in three of those who bear it, and it is known from at least thirty people."""
        assert all(SIGNAL <= one.share <= 1 and one.bearers >= 30 for one in BEARERS.values())


class TestBalance:
    def test_names_of_a_place_are_about_as_frequent(self) -> None:
        """No name is more than BALANCE times as frequent as a counterpart in any other cell."""
        for place in range(20):
            rates = [BEARERS[cell[place].lower()].per_100k for cell in NAMES.values()]
            assert max(rates) / min(rates) <= BALANCE

    @pytest.mark.parametrize("cell", NAMES)
    def test_places_go_from_frequent_to_rare(self, cell: tuple[str, str]) -> None:
        """The order of a cell is that of its frequencies, and its first differs from its last by more than BALANCE."""
        rates = [BEARERS[name.lower()].per_100k for name in NAMES[cell]]

        assert rates == sorted(rates, reverse=True)
        assert rates[0] / rates[-1] > BALANCE

    def test_no_cell_is_more_frequent_as_a_whole(self) -> None:
        """Mean frequencies of the eight cells differ by less than one third."""
        means = [sum(BEARERS[name.lower()].per_100k for name in cell) / 20 for cell in NAMES.values()]

        assert max(means) / min(means) < 4 / 3
