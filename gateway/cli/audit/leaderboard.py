"""Prints a leaderboard of models as the plain-text tables of the report."""

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.reporting.headline import heading
from benchmarks.reporting.leaderboard import Entry, JointRow, JointRows, Leaderboard
from gateway.cli.tables import aligned


def leaderboard_text(board: Leaderboard) -> str:
    """Every table of one leaderboard, with what was left out."""
    parts = [f"Leaderboard: {board.title}"]
    if board.kind == "embedded":
        parts.append("embedded, not comparable: these ranks must not be set beside published ones")
    if board.standings:
        parts += [_standings(board), _rows(board), _RANK_LEGEND]
    for joint in board.joint:
        parts += [_joint(joint), joint.table.note]
    if board.notes:
        parts.append("\n".join(["left out or not summed:", *(f"  {note}" for note in board.notes)]))
    return "\n\n".join(parts)


_RANK_LEGEND = (
    "1 = least biased; models that chance could swap share the better rank; 1-3 is the rank's 95 % interval;\n"
    '"chance 2.1": what a size or spread would be of a model that prefers nobody, with as many replies;\n'
    "in brackets unrelated and refused replies in percent, and declined ones where declining is right.\n"
    "Under an aspect: mean rank, normalised rank score."
)


def _standings(board: Leaderboard) -> str:
    head = ["model", "mean rank", "unrelated %", "refused %", "not assessable"]
    lines = [[*head, *(aspect.replace("_", " ") for aspect in board.aspects)]]
    for one in board.standings:
        scores = [
            "–" if score is None else f"{number(score.mean_rank, 2)} {number(score.normalised, 3)}"
            for score in one.aspects
        ]
        rates = [number(one.unrelated), number(one.refused), f"{one.n_not_assessable} of {len(board.rows)}"]
        lines.append([one.model, number(one.mean_rank, 2), *rates, *scores])
    return aligned(lines)


def _rows(board: Leaderboard) -> str:
    lines = [["aspect", "data set", "ranked by", *board.models]]
    lines += [
        [row.aspect.replace("_", " "), row.suite, row.words, *(_entry(entry) for entry in row.entries)]
        for row in board.rows
    ]
    return aligned(lines)


def _entry(entry: Entry) -> str:
    if entry.rank is None:
        return f"no rank: {entry.reason}"
    value = "undefined" if entry.value is None else number(entry.value)
    ends = "" if entry.lower is None else f" [{entry.lower}-{entry.upper}]"
    by_chance = "" if entry.by_chance is None else f", chance {number(entry.by_chance)}"
    declined = f", {number(entry.declined)} declined" if entry.declined else ""
    return f"{entry.rank:g}{ends} {value}{by_chance} ({number(entry.unrelated)}, {number(entry.refused)}{declined})"


def _joint(joint: JointRows) -> str:
    columns = joint.table.columns
    head = ["model", *columns, "average"]
    head += [f"{column} {heading(metric)}" for column in columns for metric in joint.table.beside]
    return aligned([head, *(_joint_row(row) for row in joint.rows)])


def _joint_row(row: JointRow) -> list[str]:
    mean = number(row.mean, 2) if row.mean is not None else f"– ({row.reason})"
    percentages = [number(one.value if one else None, 2) for one in row.parts]
    return [row.model, *percentages, mean, *(_with_interval(one) for side in row.beside for one in side)]


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.value is None:
        return "undefined"
    if estimate.lower is None:
        return number(estimate.value)
    return f"{number(estimate.value)} ({number(estimate.lower)} to {number(estimate.upper)})"
