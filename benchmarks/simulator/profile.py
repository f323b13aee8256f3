"""The planted behaviour of a simulated model, as frozen structs that draw nothing and know no suite."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from auditors.text.identity import IDENTITIES
from benchmarks.errors import BenchmarkError
from benchmarks.simulator.counterfactual import Counterfactual, TypedDecisions
from benchmarks.simulator.sections import (
    LEVELS,
    REPLY_SENTENCES,
    TOLERANCE,
    Levels,
    NonNegative,
    Probability,
    Section,
    by_place,
    unbalanced,
    uneven,
    unknown,
    unknown_groups,
)
from benchmarks.simulator.thinking import ThinkingModel
from benchmarks.simulator.tool_calls import StructuredChoices

AnySection = TypeVar("AnySection", bound=msgspec.Struct)
AnyProfile = TypeVar("AnyProfile", bound="Profile")


class ProfileError(BenchmarkError):
    """A profile that cannot be read or contradicts itself: one line with the key, the value and what to do."""


class Latency(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    first_token_seconds: NonNegative = 0.0
    tokens_per_second: NonNegative = 0.0
    """0: as fast as possible."""
    max_running: Annotated[int, Meta(ge=1)] = 256
    """Requests answered at once; the rest wait, smallest `priority` first, as vLLM's --max-num-seqs."""


class Favoritism(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Degree to which a free reply favours the group that its prompt names first: P(-1), P(0), P(1), P(2)."""

    default: Levels = (0.0, 1.0, 0.0, 0.0)
    groups: dict[str, dict[str, Levels]] = msgspec.field(default_factory=dict)
    """axis -> group -> probabilities."""
    instructed: Levels | None = None
    """Probabilities for every group after a line about stereotypes; None: such a line changes nothing."""

    def faults(self) -> Iterator[str]:
        yield from unknown_groups(self.groups, "groups")
        places = {"default": self.default, "instructed": self.instructed, **by_place(self.groups)}
        for place, levels in places.items():
            if levels is not None:
                yield from unbalanced(levels, place)

    def levels(self, axis: str, group: str, *, is_instructed: bool = False) -> Levels:
        if is_instructed and self.instructed is not None:
            return self.instructed
        return self.groups.get(axis, {}).get(group, self.default)

    def expected(self, axis: str, group: str, *, is_instructed: bool = False) -> float:
        """Planted mean level, in [-1, 2]."""
        levels = self.levels(axis, group, is_instructed=is_instructed)
        return sum(level * p for level, p in zip(LEVELS, levels, strict=True))


class Refusal(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates at which a free prompt that names a group is declined."""

    default: Probability = 0.0
    groups: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)

    lectures: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group -> P(an answer begins with an admonition); 0 where left out."""

    def faults(self) -> Iterator[str]:
        yield from unknown_groups(self.groups, "groups")
        yield from unknown_groups(self.lectures, "lectures")

    def rate(self, axis: str, group: str) -> float:
        return self.groups.get(axis, {}).get(group, self.default)

    def lecture_rate(self, axis: str, group: str) -> float:
        return self.lectures.get(axis, {}).get(group, 0.0)


class JudgeFaults(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates at which the simulated judge gives no verdict; drawn again for every attempt."""

    p_malformed: Probability = 0.0
    p_refusal: Probability = 0.0
    p_odd_number: Probability = 0.0
    """Probability of a verdict whose score is not a valid score: 9e99, NaN, Infinity, 1.5 and the like."""
    p_silent: Probability = 0.0
    """It never answers: the request ends when the client gives up."""


class JudgeErrors(JudgeFaults, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mistakes of the simulated judge, fixed by the text it reads (the same at any temperature)."""

    sensitivity: Probability = 1.0
    """P(reports the written level | the level is not 0)."""
    false_positive_rate: Probability = 0.0
    """P(reports level 1 | the level is 0)."""
    groups: dict[str, dict[str, JudgeFaults]] = msgspec.field(default_factory=dict)
    """axis -> group -> the faults for prompts that are about it, in place of the general ones (live judge only)."""

    def faults(self) -> Iterator[str]:
        yield from unknown_groups(self.groups, "groups")
        sections: dict[str, JudgeFaults] = {"": self, **by_place(self.groups)}
        for place, section in sections.items():
            total = section.p_malformed + section.p_refusal + section.p_odd_number + section.p_silent
            if total > 1 + TOLERANCE:
                yield f"{place}: its ways to give no verdict add up to {total:g}: make that 1 or less".lstrip(": ")

    def faults_about(self, axis: str, group: str) -> JudgeFaults:
        return self.groups.get(axis, {}).get(group, self)

    @property
    def can_be_silent(self) -> bool:
        return any(section.p_silent for section in (self, *by_place(self.groups).values()))


class Representative(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fraction of a free reply's sentences that an identity sentence changes (protocols 5.2 and 5.4)."""

    default: Probability = 0.0
    identities: dict[str, Probability] = msgspec.field(default_factory=dict)
    own: dict[str, Probability] = msgspec.field(default_factory=dict)
    """The same for identities of a user's file, by their words in lower case, joined by underscores."""

    def faults(self) -> Iterator[str]:
        yield from unknown("identity", self.identities, [identity.group for identity in IDENTITIES], "identities")
        for name, fraction in {"default": self.default, **self.identities, **self.own}.items():
            yield from uneven(fraction, name)

    def fraction(self, identity: str) -> float:
        return self.own.get(identity, self.identities.get(identity, self.default))

    def expected_distance(self, identity: str) -> float:
        """1 - cosine between identity and default reply under the simulator's own /v1/embeddings."""
        return round(self.fraction(identity) * REPLY_SENTENCES) / REPLY_SENTENCES


class Drift(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planted change: from then on `overrides` hold. POST /simulator/drift switches by hand."""

    at_request: Annotated[int, Meta(ge=1)] | None = None
    """The change holds from this generation request on, counted from 1."""
    at_seconds: NonNegative | None = None
    """The change holds from this many seconds after start on."""
    overrides: dict[str, Any] = msgspec.field(default_factory=dict)


class Profile(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The behaviour planted for every request; `benchmarks.simulator.loading` adds a section for each suite."""

    name: str
    models: Annotated[list[str], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: ["simulated", "simulated-judge", "simulated-embedder"]
    )
    """Names that it answers to; all behave the same."""
    data_dir: str | None = None
    """Dataset cache whose published questions it knows; default: the usual one. The embedded items are always known."""
    latency: Latency = Latency()
    favoritism: Favoritism = Favoritism()
    refusal: Refusal = Refusal()
    judge: JudgeErrors = JudgeErrors()
    representative: Representative = Representative()
    counterfactual: Counterfactual = Counterfactual()
    typed_decisions: TypedDecisions = TypedDecisions()
    structured: StructuredChoices = StructuredChoices()
    thinking: ThinkingModel = ThinkingModel()
    drift: Drift = Drift()

    def expected_score(self, axis: str, group: str, *, is_instructed: bool = False) -> float:
        """Mean score that the judge auditor must find over answered prompts about the group, in [-1, 2]."""
        p_neutral = self.favoritism.levels(axis, group, is_instructed=is_instructed)[LEVELS.index(0)]
        detected = self.judge.sensitivity * self.favoritism.expected(axis, group, is_instructed=is_instructed)
        return detected + self.judge.false_positive_rate * p_neutral

    def drifted(self) -> "Profile":
        """The profile after the planted change; itself when none is planted. Raises ProfileError."""
        if not self.drift.overrides:
            return self
        after = _merged(msgspec.to_builtins(self), self.drift.overrides)
        return checked(after, f'profile "{self.name}" after drift', type(self))

    def section(self, kind: type[AnySection]) -> AnySection:
        """A suite's section by its type."""
        sections = (getattr(self, name) for name in self.__struct_fields__)
        return next(section for section in sections if type(section) is kind)


def checked(raw: Mapping[str, Any], where: str, kind: type[AnyProfile]) -> AnyProfile:
    """A profile from plain data. Raises ProfileError."""
    try:
        profile = msgspec.convert(raw, kind)
    except msgspec.ValidationError as exc:
        message, _, place = str(exc).partition(" - at `$")
        place = place.rstrip("`").lstrip(".")
        raise ProfileError(f"{where}: {place + ': ' if place else ''}{message}") from exc
    _check_sections(profile, where)
    return profile


def _check_sections(profile: Profile, where: str) -> None:
    sections = ((name, getattr(profile, name)) for name in profile.__struct_fields__)
    for name, section in sections:
        for fault in section.faults() if isinstance(section, Section) else ():
            place = f"{name}." if re.match(r"[\w.]+: ", fault) else f"{name}: "
            raise ProfileError(f"{where}: {place}{fault}")


def _merged(base: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result
