"""The data sets of an export, column by column: types, units and meaning. A change of these is a new layout."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Kind = Literal["int64", "float64", "string", "time"]


class Column(NamedTuple):
    """A column of a data set."""

    name: str
    kind: Kind
    text: str
    unit: str | None = None


def _score(name: str, text: str) -> Column:
    return Column(name, "float64", text, "scale of its metric")


_TIME = "UTC, microseconds"

MEASUREMENTS: Sequence[Column] = (
    Column("id", "int64", "id of the measurement, unique in a store"),
    Column("exchange_id", "string", "id of the exchange; measurements of the same exchange are dependent"),
    Column("auditor", "string", "name of the auditor"),
    Column("auditor_version", "string", "do not mix scores of different versions in a series"),
    Column("metric", "string", "docs/protocols.md"),
    Column("axis", "string", "such as gender"),
    Column("group", "string", "group that the number describes"),
    Column("reference", "string", "group that it is compared with"),
    Column("model", "string", "model that answered, as named in its series"),
    _score("value", "null without a value: see status; it is not 0"),
    Column("status", "string", "ok, or why there is no value"),
    Column("judge_model", "string", "model of the judge, if a judge scored"),
    Column("judge_prompt_sha256", "string", "SHA-256 of the judge's question"),
    Column("judge_fingerprint", "string", "system fingerprint of the judge's server"),
    Column("judge_thinking", "string", "thinking setting of the judge"),
    Column(
        "inclusion_probability",
        "float64",
        "probability of the measurement: a mean over traffic weights by 1 / this",
        "1",
    ),
    Column("rate_factor", "float64", "factor by which load had lowered the sampling rate", "1"),
    Column("weight", "float64", "weight of this measurement among those of its exchange", "1"),
    Column("created_at", "time", "when it was recorded; its UTC day is the partition", _TIME),
    Column("stream", "string", "id of the live series that it updated"),
)
RUNS: Sequence[Column] = (
    Column("run_id", "string", "id of the suite run"),
    Column("suite", "string", "name of the suite"),
    Column("suite_version", "string", "do not mix numbers of different versions in a series"),
    Column("model", "string", "model that was asked"),
    Column("mode", "string", "sample or exact"),
    Column("protocol", "string", "paper, release or corrected"),
    Column("data", "string", "canonical or embedded"),
    Column("dataset_sha256", "string", "of the items"),
    Column("mitigation", "string", "none, or the added instruction"),
    Column("thinking", "string", "thinking setting of the model"),
    Column("judge", "string", "judge that scored, and its settings"),
    Column("status", "string", "done, failed or cancelled"),
    Column("items", "int64", "items that were asked", "items"),
    Column("replies", "int64", "of all statuses", "replies"),
    Column("replies_ok", "int64", "of status ok", "replies"),
    Column("requests", "int64", "sent", "requests"),
    Column("seconds", "float64", "duration of the run", "s"),
    Column("created_at", "time", "when it was asked for; its UTC day is the partition", _TIME),
    Column("started_at", "time", "when it began", _TIME),
    Column("finished_at", "time", "when it ended", _TIME),
)
ESTIMATES: Sequence[Column] = (
    Column("run_id", "string", "id of the suite run"),
    Column("suite", "string", "of the run"),
    Column("model", "string", "of the run"),
    Column("mode", "string", "of the run"),
    Column("protocol", "string", "of the run"),
    Column("metric", "string", "docs/protocols.md"),
    Column("axis", "string", "such as gender"),
    Column("group", "string", "group that the number describes"),
    Column("reference", "string", "group that it is compared with"),
    Column("subset", "string", "part of the items"),
    _score("value", "null if undefined: see reason; it is not 0"),
    _score("lower", "lower end of its interval"),
    _score("upper", "upper end of its interval"),
    Column("confidence_level", "float64", "of the interval", "1"),
    Column("method", "string", "method of the interval"),
    Column("n", "int64", "counted in the number", "replies, or what its metric counts"),
    Column("n_excluded", "int64", "left out of the number", "replies, or what its metric counts"),
    Column("reason", "string", "why it is undefined"),
    Column("not_assessable", "string", "why it says nothing about the model; null if it does"),
    Column("created_at", "time", "when the run was asked for; its UTC day is the partition", _TIME),
)
DATASETS = {"measurements": MEASUREMENTS, "runs": RUNS, "run_estimates": ESTIMATES}
