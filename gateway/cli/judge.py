"""`biasgate judge calibrate`: measures a judge against people's labels."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.judge_agreement import agreement
from auditors.streams.calibration import Corrected, ErrorRates, Pair, error_rates, rogan_gladen
from gateway.cli.tables import aligned
from gateway.errors import GatewayError

HELP = """\
Compares a judge with people: how often they agree, its error rates by group, a share corrected for them.

Labels are what `GET /annotations?format=jsonl` gives: JSON lines with value (a person's), measured_value (the judge's)
and group. Those without a measured_value are left out and counted.

Example:
  curl -s "http://127.0.0.1:8080/annotations?auditor=judge&format=jsonl" > labels.jsonl
  biasgate judge calibrate labels.jsonl
  biasgate judge calibrate labels.jsonl --threshold 0 --positive 240 --of 1000
"""

SCORES = (-1, 0, 1, 2)


class LabelsError(GatewayError):
    """Labels that cannot be read, or numbers that do not go together."""


class _Line(msgspec.Struct, frozen=True):
    value: float
    measured_value: float | None
    group: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="calibrate")
    calibrate = actions.add_parser("calibrate", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    calibrate.add_argument("labels", type=Path, metavar="FILE", help="JSON lines of labels")
    calibrate.add_argument(
        "--threshold", type=float, default=0.0, metavar="SCORE", help="a score above it is positive (default 0)"
    )
    calibrate.add_argument("--positive", type=int, metavar="N", help="of other exchanges, how many the judge scored so")
    calibrate.add_argument("--of", type=int, metavar="N", help="how many other exchanges it scored")


def run(arguments: argparse.Namespace) -> int:
    pairs, n_unscored = _read(arguments.labels)
    if (arguments.positive is None) != (arguments.of is None):
        raise LabelsError("--positive and --of go together: how many of how many exchanges the judge scored positive")
    print(f"{len(pairs)} labels with a judge's score, {n_unscored} without one left out\n")
    if pairs and all(score in SCORES for one in pairs for score in (one.judge, one.person)):
        found = agreement([int(one.person) for one in pairs], [int(one.judge) for one in pairs], SCORES)
        print(f"same score: {100 * found.share:.1f} %, Cohen's kappa {found.kappa:.3f}\n")
    print(aligned([_HEAD, *map(_row, error_rates(pairs, arguments.threshold))]))
    if arguments.of is not None:
        if not 0 <= arguments.positive <= arguments.of or arguments.of < 1:
            raise LabelsError(f"--positive {arguments.positive} must lie between 0 and --of {arguments.of}")
        corrected = rogan_gladen(arguments.positive, arguments.of, pairs, arguments.threshold)
        print(f"\n{_share(corrected, arguments.positive / arguments.of)}")
    return 0


_HEAD = ["group", "sensitivity", "positive", "specificity", "negative"]


def _row(rates: ErrorRates) -> list[str]:
    return [
        rates.group or "all",
        _rate(rates.sensitivity, rates.sensitivity_interval),
        str(rates.n_positive),
        _rate(rates.specificity, rates.specificity_interval),
        str(rates.n_negative),
    ]


def _rate(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return "undefined"
    return f"{value:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def _share(corrected: Corrected, judged: float) -> str:
    if corrected.value is None:
        return f"share above the threshold: {judged:.3f} by the judge; not corrected: {corrected.reason}"
    return (
        f"share above the threshold: {judged:.3f} by the judge; corrected {corrected.value:.3f} "
        f"({corrected.lower:.3f} to {corrected.upper:.3f}), if its error rates are the same there"
    )


def _read(path: Path) -> tuple[list[Pair], int]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise LabelsError(f"{path}: {exc.strerror}: name a file of labels") from exc
    found: list[_Line] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(msgspec.json.decode(line, type=_Line))
        except msgspec.DecodeError as exc:
            raise LabelsError(f"{path}, line {number}: {exc}: give value and measured_value on every line") from exc
    return _pairs(found), sum(one.measured_value is None for one in found)


def _pairs(found: Sequence[_Line]) -> list[Pair]:
    return [
        Pair(judge=one.measured_value, person=one.value, group=one.group or "")
        for one in found
        if one.measured_value is not None
    ]
