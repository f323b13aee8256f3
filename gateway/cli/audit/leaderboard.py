"""Prints a leaderboard of models as the plain-text tables of the report."""

from auditors.text.visible import visible_line
from auditors.types import Estimate
from benchmarks.figures.display import number, with_ends
from benchmarks.reporting.headline import heading
from benchmarks.reporting.leaderboard import AspectScore, Entry, JointRow, JointRows, Leaderboard
from gateway.terminal.tables import aligned


def leaderboard_text(board: Leaderboard) -> str:
    """Formats every table of a leaderboard, with a list of everything left out."""
    parts = [f"Leaderboard: {board.title}"]
    if board.kind == "embedded":
        parts.append("embedded, not comparable: these ranks must not be compared with published ranks")
    if board.standings:
        parts += [_standings(board), _rows(board), _RANK_LEGEND]
    for joint in board.joint:
        parts += [_joint(joint), joint.table.note]
    if board.notes:
        parts.append("\n".join(["left out or not summed:", *(f"  {note}" for note in board.notes)]))
    return "\n\n".join(parts)


_RANK_LEGEND = (
    "1 = least biased; models that chance could swap share the better rank, as 1=; 1-3 is the rank's 95 % interval;\n"
    '"chance 2.1": the size or spread that a model without preferences would have, with as many replies;\n'
    "in brackets unrelated and refused replies in percent, and declined ones where declining is right.\n"
    "Under an aspect: mean rank, normalised rank score."
)


def _standings(board: Leaderboard) -> str:
    head = [*(["place"] if board.has_places else []), "model", *(["mean rank"] if board.has_places else [])]
    head += ["unrelated %", "refused %", "not assessable"]
    lines = [[*head, *(board.aspects[at].replace("_", " ") for at in board.shown_aspects)]]
    for standing in board.standings:
        scores = [_score(standing.aspects[at]) for at in board.shown_aspects]
        rates = [
            number(standing.unrelated),
            number(standing.refused),
            f"{standing.n_not_assessable} of {len(board.rows)}",
        ]
        place = f"{standing.place or '–'}{'=' if standing.is_tied else ''}"
        place = "not assessable" if standing.not_assessable else place
        named = [place, standing.model, number(standing.mean_rank, 2)] if board.has_places else [standing.model]
        lines.append([*named, *rates, *scores])
    notes = [] if board.has_places else ["no model has a mean rank: none has a rank on every row that counts"]
    if board.folded_aspects:
        notes.append(f"without a column, because no row there gives every model a rank: {board.folded_aspects}")
    notes += [f"not assessable, without a place: {model}" for model in board.not_assessable]
    return "\n".join([aligned(lines), *map(visible_line, notes)])


def _score(score: AspectScore | None) -> str:
    if score is None:
        return "–"
    return f"{number(score.mean_rank, 2)} {'' if score.normalised is None else number(score.normalised, 3)}".rstrip()


def _rows(board: Leaderboard) -> str:
    lines = [["aspect", "data set", "ranked by", *board.models]]
    lines += [
        [row.aspect.replace("_", " "), row.suite, row.words, *(_entry(entry) for entry in row.entries)]
        for row in board.rows
        if row.is_ranked
    ]
    return aligned(lines)


def _entry(entry: Entry) -> str:
    if entry.rank is None:
        return f"no rank: {entry.reason}"
    value = "undefined" if entry.value is None else number(entry.value)
    without = f" [{entry.reason}]" if entry.reason else ""
    ends = without if entry.lower is None else f" [{entry.lower}-{entry.upper}]"
    by_chance = "" if entry.by_chance is None else f", chance {number(entry.by_chance)}"
    declined = f", {number(entry.declined)} declined" if entry.declined else ""
    tied = "=" if entry.is_tied else ""
    return (
        f"{entry.rank:g}{tied}{ends} {value}{by_chance} ({number(entry.unrelated)}, {number(entry.refused)}{declined})"
    )


def _joint(joint: JointRows) -> str:
    columns = [joint.table.columns[at] for at in joint.shown]
    head = ["model", *columns, *(["average"] if joint.has_mean else [])]
    head += [f"{column} {heading(metric)}" for column in columns for metric in joint.table.beside]
    note = f"\n{joint.folded}" if joint.folded else ""
    return f"{aligned([head, *(_joint_row(row, joint) for row in joint.rows)])}{note}"


def _joint_row(row: JointRow, joint: JointRows) -> list[str]:
    mean = number(row.mean, 2) if row.mean is not None else f"– ({row.reason})"
    parts = [row.parts[at] for at in joint.shown]
    percentages = [number(part.value if part else None, 2) for part in parts]
    beside = [with_interval(estimate) for at in joint.shown for estimate in row.beside[at]]
    return [row.model, *percentages, *([mean] if joint.has_mean else []), *beside]


def with_interval(estimate: Estimate | None, decimals: int = 1) -> str:
    if estimate is None:
        return "–"
    if estimate.value is None:
        return "undefined"
    return with_ends(estimate.value, estimate.lower, estimate.upper, decimals)
