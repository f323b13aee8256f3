"""The aims that the project set itself for the gateway's speed, and whether a run reached them."""

from collections.abc import Iterable
from typing import NamedTuple

from tools.bench.gateway.arena import Figure

OURS = "biasgate, 1 % sampled"
PEER = "vllm-router"


class Verdict(NamedTuple):
    """One line of the report. `value` is text because aims are of many units; "-" when it was not measured."""

    what: str
    value: str
    aim: str
    is_met: bool | None


class Figures:
    """The figures of a run, to look up."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._all = list(figures)

    def median(self, section: str, who: str, what: str, case: str = "") -> float | None:
        """Of the first figure that fits; `case` by its beginning. None when there is none or it has failures."""
        for one in self._all:
            if (one.section, one.who, one.what) == (section, who, what) and one.case.startswith(case):
                return None if one.failures else one.median
        return None

    def ratio(self, section: str, ours: str, theirs: str, what: str, case: str) -> float | None:
        """Ours over theirs."""
        mine, other = self.median(section, ours, what, case), self.median(section, theirs, what, case)
        return mine / other if mine is not None and other else None


def verdicts(figures: Iterable[Figure]) -> list[Verdict]:
    """Every aim, in the order in which the project states them."""
    found = Figures(figures)
    closed = ("closed loop", OURS)
    return [
        _times(f"requests/s against {PEER}", found.ratio(*closed, PEER, "requests", "0.2 kB, 64"), at_least=2.0),
        _times("requests/s against LiteLLM", found.ratio(*closed, "litellm", "requests", "0.2 kB, 64"), at_least=200),
        _no_more("added p50 at one connection", found, "added p50"),
        _no_more("added p99 at one connection", found, "added p99"),
        *(
            _times(
                f"cpu per event against {PEER}, {streams:,} streams",
                found.ratio("streams", OURS, PEER, "cpu per event", f"{streams} "),
                at_most=1.0,
            )
            for streams in (200, 1000)
        ),
        _times(
            "requests/s at 100 % sampling against 0 %",
            found.ratio("closed loop", "biasgate, all sampled", "biasgate, no sampling", "requests", "0.2 kB, 64"),
            at_least=0.8,
        ),
        _times(
            "requests/s of two workers against one",
            found.ratio("workers", "2 workers", "1 worker", "requests", ""),
            at_least=1.8,
        ),
        _value("resident memory of a worker", found.median("endurance", OURS, "resident"), "MB", at_most=90),
        _value("slope after warm-up", found.median("endurance", OURS, "slope"), "bytes/request", at_most=SLOPE_NOISE),
        _value("start to ready", found.median("start", OURS, "ready"), "s", at_most=1.5),
        _value("/livez p99 under streams and bodies", found.median("/livez", OURS, "p99"), "ms", at_most=50),
    ]


SLOPE_NOISE = 1.0
"""Bytes a request that count as none: a page or two of the allocator over thousands of requests."""


def table(lines: Iterable[Verdict]) -> str:
    """For a terminal."""
    words = {True: "reached", False: "MISSED", None: "not measured"}
    return "\n".join(f"{line.what:48} {line.value:>17}   aim {line.aim:18} {words[line.is_met]}" for line in lines)


def _times(what: str, ratio: float | None, *, at_least: float | None = None, at_most: float | None = None) -> Verdict:
    return _value(what, ratio, "x", at_least=at_least, at_most=at_most)


def _value(
    what: str, value: float | None, unit: str, *, at_least: float | None = None, at_most: float | None = None
) -> Verdict:
    aim = f">= {at_least:g} {unit}" if at_least is not None else f"<= {at_most:g} {unit}"
    if value is None:
        return Verdict(what, "-", aim, None)
    is_met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    return Verdict(what, f"{value:.3g} {unit}", aim, is_met)


def _no_more(what: str, found: Figures, column: str) -> Verdict:
    ours, theirs = (found.median("closed loop", who, column, "0.2 kB, 1 ") for who in (OURS, PEER))
    if ours is None or theirs is None:
        return Verdict(what, "-", f"<= {PEER}'s", None)
    return Verdict(what, f"{ours:.3f} ms", f"<= {theirs:.3f} ms", ours <= theirs)
