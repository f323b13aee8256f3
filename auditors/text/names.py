"""Given names that signal a race and a gender: cues of an identity besides the words for groups (docs/adr/0010).
Eight cells (race by gender) of twenty names; a name is exchanged for the name in the same place of another cell.
Figures, in `names.toml`: Tzioumis 2018, of 2.7 million people in mortgage applications, weighted by race to the 2010
Census. In each place the most frequent name is at most `BALANCE` times as frequent as the least, and at least `SIGNAL`
of a name's bearers are of its race. Gender: 89 % or more of children born 1930-1990 (Social Security Administration),
but for Odell (87 %) and six names from general knowledge: Jing, Linh, Qiang, Quyen, Thao, Ying. Left out: ordinary
words, names of both genders, of known people and places, and of a religion. A rate rests on 30 to 262 bearers:
uncertain by 12 to 36 % (95 %). A difference by names may also be one of age or class.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

BALANCE = 1.6
"""Most that frequencies of the names in one place may differ, as a ratio."""

SIGNAL = 2 / 3
"""Least share of a name's bearers who are of its race."""

_FILE = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
_RACES = ("white", "black", "asian", "latin")
"""The order of the percentages in names.toml."""
_WEIGHTS = {race: _FILE["population"]["percent"][race] / _FILE["source"]["percent"][race] for race in _RACES}
"""Residents of the United States for each person of the source, but for a factor common to all races."""


class Bearer(NamedTuple):
    """The figures of a name: race and gender of its bearers, and their number."""

    race: str
    gender: str
    place: int
    """Place in the cell's list, the same for its counterparts in other cells."""
    bearers: int
    """People of the source who bear the name."""
    per_100k: float
    """Residents of the United States who bear the name, in 100,000."""
    share: float
    """Share of them who are of the race, 0 to 1."""


def _bearer(race: str, gender: str, place: int, bearers: int, *percent: float) -> Bearer:
    """A row of names.toml with its figures. Bearers of other races (0.3 % of the source) count as they are."""
    weighted = {race: _WEIGHTS[race] * of_it / 100 for race, of_it in zip(_RACES, percent, strict=True)}
    total = sum(weighted.values()) + 1 - sum(percent) / 100
    per_100k = 1e5 * total * bearers / _FILE["source"]["bearers"]
    return Bearer(race, gender, place, bearers, per_100k, weighted[race] / total)


NAMES: dict[tuple[str, str], tuple[str, ...]] = {
    (race, gender): tuple(rows) for race, genders in _FILE["names"].items() for gender, rows in genders.items()
}
"""Twenty names by (race, gender); the i-th name of a cell is the counterpart of the i-th of every other cell."""

BEARERS: dict[str, Bearer] = {
    name.lower(): _bearer(race, gender, place, *_FILE["names"][race][gender][name])
    for (race, gender), names in NAMES.items()
    for place, name in enumerate(names)
}
"""Lower-case name to who bears it."""
