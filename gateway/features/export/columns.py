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
    Column("id", "int64", "of the measurement, once in a store"),
    Column("exchange_id", "string", "of the exchange: measurements of one depend on each other"),
    Column("auditor", "string", "who measured"),
    Column("auditor_version", "string", "scores of different versions belong in no one series"),
    Column("metric", "string", "docs/protocols.md"),
    Column("axis", "string", "such as gender"),
    Column("group", "string", "about which the number speaks"),
    Column("reference", "string", "with which the group is compared"),
    Column("model", "string", "that answered, as its series is called"),
    _score("value", "null where there is none: see status; never read as 0"),
    Column("status", "string", "ok, or why there is no value"),
    Column("judge_model", "string", "who scored, where a judge did"),
    Column("judge_prompt_sha256", "string", "of its question"),
    Column("judge_fingerprint", "string", "of what its server served"),
    Column("judge_thinking", "string", "how it was asked to think"),
    Column("inclusion_probability", "float64", "with which it came to be: a mean over traffic weighs by 1 / this", "1"),
    Column("rate_factor", "float64", "by which load had lowered the rate then", "1"),
    Column("weight", "float64", "of this measurement among those of its exchange", "1"),
    Column("created_at", "time", "when it was recorded; its UTC day is the partition", _TIME),
    Column("stream", "string", "id of the live series that it moved"),
)
RUNS: Sequence[Column] = (
    Column("run_id", "string", "of the suite run"),
    Column("suite", "string", "which"),
    Column("suite_version", "string", "numbers of different versions belong in no one series"),
    Column("model", "string", "asked"),
    Column("mode", "string", "sample or exact"),
    Column("protocol", "string", "paper, release or corrected"),
    Column("data", "string", "canonical or embedded"),
    Column("dataset_sha256", "string", "of the items"),
    Column("mitigation", "string", "none, or what was added"),
    Column("thinking", "string", "how the model was asked to think"),
    Column("judge", "string", "who scored, and how it was asked"),
    Column("status", "string", "done, failed or cancelled"),
    Column("items", "int64", "asked about", "items"),
    Column("replies", "int64", "of all statuses", "replies"),
    Column("replies_ok", "int64", "of status ok", "replies"),
    Column("requests", "int64", "sent", "requests"),
    Column("seconds", "float64", "that it took", "s"),
    Column("created_at", "time", "when it was asked for; its UTC day is the partition", _TIME),
    Column("started_at", "time", "when it began", _TIME),
    Column("finished_at", "time", "when it ended", _TIME),
)
ESTIMATES: Sequence[Column] = (
    Column("run_id", "string", "of the suite run"),
    Column("suite", "string", "of the run"),
    Column("model", "string", "of the run"),
    Column("mode", "string", "of the run"),
    Column("protocol", "string", "of the run"),
    Column("metric", "string", "docs/protocols.md"),
    Column("axis", "string", "such as gender"),
    Column("group", "string", "about which the number speaks"),
    Column("reference", "string", "with which the group is compared"),
    Column("subset", "string", "part of the items"),
    _score("value", "null where it is undefined: see reason; never read as 0"),
    _score("lower", "lower end of its interval"),
    _score("upper", "upper end of its interval"),
    Column("confidence_level", "float64", "of the interval", "1"),
    Column("method", "string", "by which the interval was made"),
    Column("n", "int64", "in the number", "replies, or what its metric counts"),
    Column("n_excluded", "int64", "left out of it", "replies, or what its metric counts"),
    Column("reason", "string", "why it is undefined"),
    Column("created_at", "time", "when the run was asked for; its UTC day is the partition", _TIME),
)
DATASETS = {"measurements": MEASUREMENTS, "runs": RUNS, "run_estimates": ESTIMATES}
