"""Other judgements of the same judge, without labels, and their shares by group, corrected by the labels."""

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from auditors.metrics.intervals import CorrectedShare
from auditors.structs import combine
from benchmarks.errors import BenchmarkError, decode_lines
from benchmarks.lab import labelling
from benchmarks.lab.metrics.error_rates import GroupShare, Judged, Labelled, share_difference, shares_by_group
from gateway.features.lab.judge.identity import JudgeSeen, require_same
from gateway.features.lab.judge.labels import Judgement, Labels, LabelsError, read_file
from gateway.features.lab.judge.tables import by_exchange, number_cell
from gateway.terminal.tables import aligned


class OtherScore(JudgeSeen, frozen=True, kw_only=True):
    """One line: a judge's score of something else. Unknown fields are left out."""

    measured_value: float | None
    group: str | None = None
    axis: str | None = None
    exchange_id: str | None = None
    cluster: str | None = None
    task: str | None = None
    reference: str | None = None

    @property
    def judgement(self) -> tuple[str | None, ...] | None:
        """Key that tells it from others: lines of several people have the same key."""
        if self.task is not None:
            return (self.task,)
        return None if self.exchange_id is None else (self.exchange_id, self.axis, self.group, self.reference)


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """Judgements with a score and a group."""

    scores: Sequence[OtherScore]
    n_without: int
    """Number of judgements without a score or without a group."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--judged",
        type=Path,
        metavar="FILE|RUN_DIR",
        help="other judgements of that judge: correct each group's share above the threshold by its own error rates",
    )


def read(path: Path, labels: Labels) -> Others:
    """Raises LabelsError or IdentityError, one line."""
    lines = _of_run(path) if path.is_dir() else _of_file(path)
    require_same(labels.judges, lines, path)
    once = {line.judgement or number: line for number, line in enumerate(lines)}
    usable = [score for score in once.values() if score.measured_value is not None and score.group is not None]
    if not usable:
        raise LabelsError(f"{path}: no line has a measured_value and a group: there is no group's share to correct")
    return Others(scores=usable, n_without=len(once) - len(usable))


def shares(other_scores: Others, judgements: Sequence[Judgement], threshold: float) -> dict[str, GroupShare]:
    """Each group's share above the threshold, by name of the group."""
    labelled = [judgement for judgement in judgements if judgement.judge is not None and judgement.group is not None]
    return shares_by_group(
        Labelled(
            [judgement.person > threshold for judgement in labelled],
            [(judgement.judge or 0.0) > threshold for judgement in labelled],
            [judgement.group or "" for judgement in labelled],
            [judgement.exchange for judgement in labelled],
        ),
        Judged(
            [(score.measured_value or 0.0) > threshold for score in other_scores.scores],
            [score.group or "" for score in other_scores.scores],
            _clusters(other_scores.scores),
        ),
    )


def tables(group_shares: dict[str, GroupShare], other_scores: Others, threshold: float) -> str:
    """Shares and differences of the groups of an axis, as they are printed."""
    n, n_clusters = len(other_scores.scores), len(set(_clusters(other_scores.scores)))
    left_out = f", {other_scores.n_without} without a score or a group left out" if other_scores.n_without else ""
    head = f"share above {threshold:g} of {n:,} other judgements of {n_clusters:,} exchanges{left_out}"
    rows = [["group", "by the judge", "corrected by the group's own error rates", "judgements", "exchanges"]]
    rows += [
        [
            name,
            number_cell(share.judged, share.judged_interval),
            _cell(share.corrected),
            f"{share.n:,}",
            f"{share.n_clusters:,}",
        ]
        for name, share in group_shares.items()
    ]
    parts = [f"{head}\n\n{aligned(rows)}"]
    axes: dict[str | None, set[str]] = {}
    for score in other_scores.scores:
        if score.group is not None and group_shares[score.group].corrected.value is not None:
            axes.setdefault(score.axis, set()).add(score.group)
    if pairs := (
        [(group_shares[a], group_shares[b]) for names in axes.values() for a, b in combinations(sorted(names), 2)]
    ):
        rows = [["difference", "by the judge", "corrected"]]
        rows += [
            [f"{a.group} - {b.group}", f"{a.judged - b.judged:+.3f}", _cell(share_difference(a, b), signed=True)]
            for a, b in pairs
        ]
        parts.append(aligned(rows))
    return "\n\n".join(parts)


def _cell(corrected: CorrectedShare, *, signed: bool = False) -> str:
    if corrected.value is None:
        return f"undefined ({by_exchange(corrected.reason)})"
    return number_cell(corrected.value, corrected.interval, signed=signed)


def _clusters(scores: Sequence[OtherScore]) -> list[str]:
    return [score.cluster or score.exchange_id or f"{number} alone" for number, score in enumerate(scores)]


def _of_file(path: Path) -> list[OtherScore]:
    content = read_file(path, "name a file of judgements, or a run directory")
    return [
        decoded for _, decoded in decode_lines(content, OtherScore, path, "give measured_value and group on every line")
    ]


def _of_run(path: Path) -> list[OtherScore]:
    try:
        tasks = labelling.draw(path).tasks
    except BenchmarkError as exc:
        raise LabelsError(str(exc)) from exc
    scores = []
    for task in tasks:
        origin = task.origin
        value = None if origin.judge is None else origin.judge.value
        if isinstance(value, str):
            raise LabelsError(f"{path}: what its judge says are names and no scores: no share of them is corrected")
        scores.append(combine(OtherScore, origin, measured_value=value, task=task.id))
    return scores
