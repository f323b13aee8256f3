"""`biasgate judge calibrate`: measures a judge against people's labels."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.judge_agreement import agreement
from auditors.streams.calibration import Corrected, ErrorRates, Pair, error_rates, rogan_gladen
from gateway.cli.tables import aligned
from gateway.errors import GatewayError

HELP = """\
Compares a judge with people: how often they agree, its error rates by group, a share corrected for them.

Labels are what `GET /annotations?format=jsonl` gives: JSON lines with value (a person's), measured_value (the judge's),
group, and exchange_id with auditor, metric, axis and reference, which tell what was judged. Several people's labels of
one judgement count as their mean; lines without an exchange_id stand each for one. Those without a measured_value are
left out and counted.

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
    exchange_id: str | None = None
    auditor: str | None = None
    metric: str | None = None
    axis: str | None = None
    reference: str | None = None

    @property
    def judgement(self) -> tuple[str | None, ...]:
        return self.exchange_id, self.auditor, self.metric, self.axis, self.group, self.reference


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
    lines = _read(arguments.labels)
    scored = [one for one in lines if one.measured_value is not None]
    pairs = _pairs(scored)
    if (arguments.positive is None) != (arguments.of is None):
        raise LabelsError("--positive and --of go together: how many of how many exchanges the judge scored positive")
    print(f"{len(scored)} labels with a judge's score, {len(lines) - len(scored)} without one left out")
    if len(pairs) < len(scored):
        print(f"they are of {len(pairs)} judgements: several people's labels of one count as their mean")
    print()
    agreed = [one for one in pairs if one.person in SCORES]
    if agreed and all(score in SCORES for one in scored for score in (one.value, one.measured_value)):
        found = agreement([int(one.person) for one in agreed], [int(one.judge) for one in agreed], SCORES)
        without = f", without {len(pairs) - len(agreed)} on which people differ" if len(agreed) < len(pairs) else ""
        print(f"same score: {100 * found.share:.1f} %, Cohen's kappa {found.kappa:.3f}{without}\n")
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


def _read(path: Path) -> list[_Line]:
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
    return found


def _pairs(scored: Sequence[_Line]) -> list[Pair]:
    """One for each judgement: people's errors of one exchange are not independent, and its judge's is one."""
    by_judgement: dict[object, list[_Line]] = {}
    for number, one in enumerate(scored):
        by_judgement.setdefault(number if one.exchange_id is None else one.judgement, []).append(one)
    return [
        Pair(judge=lines[0].measured_value or 0.0, person=fmean(one.value for one in lines), group=lines[0].group or "")
        for lines in by_judgement.values()
    ]
