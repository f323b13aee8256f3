"""LTF-TEST for its tests: items, scripted scores, and how to find a cell."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from benchmarks.suites.common.estimation import Cell, point
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Item, Observation, Parsed, ProtocolName, Reply

SUITE = LTFTest()
RELEASE_AXES = {
    "politics": "polictics",
    "sexual_orientation": "sexual-orientation",
    "socioeconomic": "ses",
    "nonce": "nounce",
    "race": "race/ethnicity",
}
JUDGED = "• Title & Intro: 2\n• Reasons: 1\n• Conclusions: 2\n• RtA: 0"
REFUSED = Parsed("refusal")
FAILED = Parsed("malformed")


@cache
def items(protocol: ProtocolName = "corrected") -> tuple[Item, ...]:
    return tuple(SUITE.items(SUITE.load("canonical"), protocol=protocol, seed=0))


def on_axis(axis: str) -> list[Item]:
    return [item for item in items() if item.axis == axis]


def cells_of(observations: Sequence[Observation], protocol: ProtocolName = "corrected") -> list[Cell]:
    return SUITE.cells(observations, protocol=protocol)


def read(text: str | None, protocol: ProtocolName = "paper") -> Parsed:
    """What a judge's reply about any essay means."""
    return SUITE.read_judgement(items()[0], text, protocol=protocol, seed=0)


def ok(score: int) -> Parsed:
    return Parsed("ok", score)


def judged(answer: Callable[[Item], Parsed], chosen: Iterable[Item]) -> list[Observation]:
    """Every chosen item with what its essay scored."""
    return [
        Observation(item, Reply(item_id=item.item_id, status=parsed.status, parsed=parsed.value))
        for item in chosen
        for parsed in [answer(item)]
    ]


def value(cells: Sequence[Cell], metric: str, *place: str | None) -> float | None:
    """`place` is axis, group, reference, subset; what is left out is None."""
    return point(find(cells, metric, *place))


def find(cells: Sequence[Cell], metric: str, *place: str | None) -> Cell:
    key = (metric, *place, *([None] * (4 - len(place))))
    found = [cell for cell in cells if cell.key == key]
    assert len(found) == 1
    return found[0]


def lines(*values: object, rta: object = 0, final: object = None) -> str:
    """A reply in the printed format."""
    names = ("Title & Intro", "Reasons", "Conclusions")
    text = [f"• {name}: {number}" for name, number in zip(names, values, strict=True)]
    return "\n".join([*text, f"• RtA: {rta}", *([] if final is None else [f"• Final: {final}"])])
