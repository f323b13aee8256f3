"""The request of a canary: two models, the gaps that are compared, and the certainty that the verdict needs."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from auditors.streams.scales import SCALES
from auditors.text.identity import AXES
from benchmarks.lab.metrics.sequential_comparison import Direction
from gateway.config.schema import Config
from gateway.errors import RequestError, nearest

REPLAYED = ("counterfactual", "decision")
"""Auditors whose probes can be replayed on any model: all answers are drawn again, none is a client's."""

REFUSAL_RATE = "refusal_rate"
FAILURE_RATE = "failure_rate"
"""Share of the pairs in which a side could not be asked: it prevents a promotion, but rolls nothing back."""

DIRECTIONS: Mapping[str, Direction] = {
    "counterfactual_distance_excess": "directed",
    "counterfactual_refusal_difference": "absolute",
    "counterfactual_length_difference": "absolute",
    "counterfactual_favoritism_difference": "absolute",
    "counterfactual_tool_name_excess": "directed",
    "counterfactual_tool_arguments_excess": "directed",
    "counterfactual_json_excess": "directed",
    "decision_probability_excess": "absolute",
    "decision_flip_rate": "directed",
    REFUSAL_RATE: "directed",
    FAILURE_RATE: "directed",
}
"""directed: worse when higher. absolute: worse away from 0. `decision_impact_ratio` is in the probability excess."""


class Gap(NamedTuple):
    """One number about one group. Axis and group are "" where all exchanges are meant."""

    auditor: str
    metric: str
    axis: str = ""
    group: str = ""

    def __str__(self) -> str:
        about = f" of {self.axis}/{self.group}" if self.axis else ""
        return f"{self.metric}{about}"


def score(metric: str, value: float) -> float:
    """A measured value on -1..1: divided by the most that its metric can be, so that 0 stays 0."""
    scale = SCALES[metric]
    return max(-1.0, min(1.0, value / max(abs(scale.low), abs(scale.high))))


Name = Annotated[str, Meta(min_length=1, max_length=200)]
MOST_PAIRS = 100_000


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the two models."""

    model: Name
    upstream: Name | None = None
    """Its name in the configuration; default: the first that serves the model."""


class CanaryRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /canaries`. Scores and differences are on -1..1, whatever the metric (see `gaps`)."""

    stable: Side
    canary: Side
    auditors: Annotated[list[Name], Meta(min_length=1, max_length=10)] | None = None
    """Auditors whose probes are replayed; default: counterfactual and decision, as far as they are enabled."""
    axes: Annotated[list[Name], Meta(min_length=1, max_length=20)] | None = None
    """Compared on these axes; default: all."""
    smallest_difference: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """Growth of a gap that must be excluded of every gap before the canary is promoted."""
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Growth that is not held against the canary."""
    alpha: Annotated[float, Meta(ge=1e-6, le=0.2)] = 0.01
    """Highest probability of a rollback if it is not worse, or of a promotion if worse by the smallest difference."""
    max_pairs: Annotated[int, Meta(ge=20, le=MOST_PAIRS)] = 2_000
    """Pairs after which the canary is held, if there was not another verdict before."""


def resolved(request: CanaryRequest, config: Config) -> CanaryRequest:
    """The request with aliases resolved and auditors chosen. Raises RequestError if it cannot be compared."""
    sides = {
        word: msgspec.structs.replace(side, model=config.aliases.get(side.model, side.model))
        for word, side in (("stable", request.stable), ("canary", request.canary))
    }
    upstreams = {upstream.name: upstream.models for upstream in config.upstreams}
    for word, side in sides.items():
        if side.upstream is not None and side.upstream not in upstreams:
            near = nearest(side.upstream, set(upstreams))
            raise RequestError(
                f'{word}.upstream: unknown upstream "{side.upstream}"{near}; configured: {", ".join(sorted(upstreams))}'
            )
        if side.upstream is not None and not {side.model, "*"} & set(upstreams[side.upstream]):
            raise RequestError(
                f'{word}: upstream "{side.upstream}" is not configured for "{side.model}"; its models: '
                f"{', '.join(upstreams[side.upstream])}"
            )
    if sides["stable"] == sides["canary"]:
        model = sides["stable"].model
        raise RequestError(f'stable and canary are both "{model}": name two models, or one on two upstreams')
    if (tolerance := request.tolerance) >= (least := request.smallest_difference):
        raise RequestError(f"tolerance {tolerance:g} must be below smallest_difference {least:g}")
    for axis in request.axes or ():
        if axis not in AXES:
            raise RequestError(f'unknown axis "{axis}"{nearest(axis, set(AXES))}; known: {", ".join(AXES)}')
    return msgspec.structs.replace(request, **sides, auditors=_auditors(request, config))


def _auditors(request: CanaryRequest, config: Config) -> list[str]:
    enabled = [name for name in REPLAYED if config.auditors.sections[name].enabled]
    if not enabled:
        raise RequestError(
            "no auditor is enabled whose probes can be replayed: set auditors.counterfactual.enabled or "
            "auditors.decision.enabled"
        )
    for name in request.auditors or ():
        if name not in REPLAYED:
            raise RequestError(
                f'auditor "{name}" cannot be replayed{nearest(name, set(REPLAYED))}: only {" and ".join(REPLAYED)} '
                "sample all their answers again"
            )
        if name not in enabled:
            raise RequestError(f'auditor "{name}" is not enabled: set auditors.{name}.enabled')
    return list(dict.fromkeys(request.auditors or enabled))
