"""The page of a bundle: its numbers that bear on clauses of the EU AI Act, NIST AI 100-1 and 6 RCNY 5-300 to 5-304."""

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from benchmarks.reporting.markdown import cell, table

Estimate = Mapping[str, Any]

MAX_ROWS = 60
"""Numbers printed for a clause; result.json has all."""
RATES_OF_GROUPS = frozenset({"selection_share", "share", "attributed_share", "first_choice_share"})
"""Metrics that say how often a group is picked: the nearest that a suite has to a selection rate."""

NOT_AT_HAND = "It is on the suite's card, which was not available when this bundle was packed."


class Clause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A clause, the numbers that bear on it, and their limits."""

    title: str
    asks: str
    numbers: Literal["totals", "rates", "left_out", "none"]
    none: str
    """Text that is shown where such a number does not exist."""
    not_shown: str


def _totals(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Over all groups and parts of the data; where a run has none such, those of its groups."""
    for keys in (("group", "reference", "subset"), ("reference", "subset"), ("reference",), ()):
        if matches := [estimate for estimate in estimates if all(estimate.get(key) is None for key in keys)]:
            return matches
    return []


def _rates(estimates: Sequence[Estimate]) -> list[Estimate]:
    return [each for each in estimates if each["metric"] in RATES_OF_GROUPS and each.get("group") is not None]


def _left_out(estimates: Sequence[Estimate]) -> list[Estimate]:
    return [total for total in _totals(estimates) if total["metric"].endswith(("_rate", "lms"))]


_NUMBERS: Mapping[str, Callable[[Sequence[Estimate]], list[Estimate]]] = {
    "totals": _totals,
    "rates": _rates,
    "left_out": _left_out,
    "none": lambda _: [],
}
CLAUSES: Sequence[Clause] = msgspec.toml.decode(
    resources.files(__package__).joinpath("clauses.toml").read_bytes(), type=dict[str, list[Clause]]
)["clauses"]


def page(result: Mapping[str, Any], absent: Mapping[str, str], does_not_show: str | None) -> str:
    """Return the page in Markdown. `absent`: what the bundle lacks, and why. `does_not_show`: None if unknown here."""
    data, judge = result["dataset"], result.get("judge")
    counts = ", ".join(f"{name} {count}" for name, count in result["counts"].items())
    parts = [
        "# Clauses and numbers",
        "Generated from result.json. It says which numbers of this bundle bear on which clause, and what they do not "
        "show. It is not legal advice, and it does not state that anything complies with a rule.",
        f"Run: suite {cell(result['suite'])} {cell(result['suite_version'])}, model {cell(result['model'])}, "
        f"protocol {result['protocol']}, mode {result['mode']}, {data['kind']} data ({data['n_used']} items "
        f"asked, {data['n_canonical']} in the data, sha256 {data['sha256']}). Replies: {counts}.",
    ]
    if data["kind"] == "embedded":
        parts.append("The items are a few of biasgate's own: the numbers compare with nothing published.")
    if judge is not None and not judge["validated"]:
        parts.append(f"The judge is not validated, so its numbers are about the judge too: {cell(judge['reason'])}.")
    for clause in CLAUSES:
        parts += [f"## {clause.title}", f"Asks: {clause.asks}"]
        parts += _table(_NUMBERS[clause.numbers](result["estimates"]), clause.none)
        parts.append(f"Does not show: {clause.not_shown}")
    parts += ["## What the suite does not show", does_not_show or NOT_AT_HAND]
    if absent:
        parts += ["## Not in this bundle", "\n".join(f"- `{name}`: {why}" for name, why in sorted(absent.items()))]
    return "\n\n".join(parts) + "\n"


def _table(estimates: Sequence[Estimate], none: str) -> list[str]:
    if not estimates:
        return [none]
    head = ("metric", "of", "value", "95 % interval", "n", "left out", "reason")
    more = len(estimates) - MAX_ROWS
    footnotes = [f"{more} more are in result.json."] if more > 0 else []
    return [table([head, *map(_row, estimates[:MAX_ROWS])]), *footnotes]


def _row(estimate: Estimate) -> Sequence[object]:
    place = [estimate.get(key) for key in ("axis", "group", "reference", "subset")]
    of = " / ".join(str(name) for name in place if name is not None) or "all"
    value = "undefined" if estimate["value"] is None else _number(estimate["value"])
    ends = "" if estimate.get("lower") is None else f"{_number(estimate['lower'])} to {_number(estimate['upper'])}"
    n_excluded, reason = estimate.get("n_excluded", 0), estimate.get("reason") or ""
    return estimate["metric"], of, value, ends, estimate["n"], n_excluded, reason


def _number(value: float) -> str:
    return f"{value:.4g}"
