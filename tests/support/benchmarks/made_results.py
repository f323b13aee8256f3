"""Results of runs made by hand, and the leaderboard that they give."""

from typing import Any

from auditors.types import Estimate
from benchmarks.reporting.leaderboard import Leaderboard, Row, leaderboards
from benchmarks.run.result import DatasetUsed, Provenance, Result
from benchmarks.suites.protocol import STATUSES


def estimate(metric: str, value: float | None, axis: str | None = "gender", **keys: Any) -> Estimate:
    return Estimate(metric=metric, axis=axis, value=value, n=100, n_excluded=0, **keys)


def result(suite: str, model: str, estimates: list[Estimate], **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "suite": suite,
        "suite_version": "1.0",
        "protocol": "corrected",
        "mode": "sample",
        "model": model,
        "seed": 0,
        "dataset": DatasetUsed(name=suite, kind="canonical", sha256="0" * 64, n_canonical=100, n_used=100),
        "counts": {"items": 100} | dict.fromkeys(STATUSES, 0) | {"ok": 100},
        "estimates": estimates,
        "provenance": Provenance(biasgate="0", prompt_sha256=""),
    }
    return Result(**fields | changes)


def crows(model: str, icat: float | None, unrelated: float = 5.0, axis: str = "gender", **changes: Any) -> Result:
    rates = [estimate("unrelated_rate", unrelated, axis), estimate("refusal_rate", 2.0, axis)]
    counts = {"items": 100} | dict.fromkeys(STATUSES, 0)
    counts |= {"ok": round(100 - unrelated), "unrelated": round(unrelated)}
    return result("crows_pairs", model, [estimate("icat", icat, axis), *rates], **{"counts": counts} | changes)


def only(results: list[Result]) -> Leaderboard:
    (board,) = leaderboards(results)
    return board


def ranks(row: Row) -> list[float | None]:
    return [entry.rank for entry in row.entries]
