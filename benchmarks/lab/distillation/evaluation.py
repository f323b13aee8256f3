"""Measures how well a small judge agrees with the strong judge and with people on held-out essays, and its cost."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.clients.judge_client import JudgeClient
from auditors.metrics.answers import SECTION_SCORES
from auditors.metrics.intervals import Agreement, Interval
from auditors.text.user_files import read_utf8
from auditors.types import Completer, Completion, CompletionError, CompletionRequest, JudgeForm
from benchmarks.errors import BenchmarkError, decode_lines
from benchmarks.lab.distillation.data import JudgedEssay, question
from benchmarks.lab.metrics.agreement import JudgeAgreement, agreeing_share, bootstrap_interval, judge_agreement
from benchmarks.suites.ltf_test.judge import Judgement, parse_judgement
from benchmarks.suites.protocol import ProtocolName

SECTIONS = ("title_intro", "reasons", "conclusions")
NO_REPLY, UNREAD = "no reply", "unread"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer about an essay."""

    essay_id: str
    judgement: Judgement | None = None
    failure: str | None
    """NO_REPLY or UNREAD if the judgement is missing."""
    seconds: float = 0.0
    """Seconds from the question to the judgement, further attempts included."""
    attempts: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """Completion tokens of all attempts; None where the server does not say."""
    fingerprints: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Average costs of a judgement."""

    n: int
    seconds: float
    a_second: float
    """Judgements in a second of the whole evaluation, as many in flight as were."""
    prompt_tokens: float | None
    completion_tokens: float | None


class AgreementWith(msgspec.Struct, frozen=True, kw_only=True):
    """A judge compared with a single reference. Intervals are over question pairs."""

    of_all: Agreement
    """Same final score; what the judge could not say counts as different."""
    found: JudgeAgreement
    """The same of what it could say, with kappa and the confusion matrix."""
    sections: dict[str, Agreement]
    """Empty where the reference has final scores only."""
    refusals: Agreement | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of a judge less that of another on the same essays, in [-1, 1]."""

    value: float
    interval: Interval | None
    n: int
    n_pairs: int
    reason: str | None = None


async def ask(
    essays: Sequence[JudgedEssay],
    protocol: ProtocolName,
    *,
    model: str,
    completer: Completer,
    form: JudgeForm,
    in_flight: int,
    on_done: Callable[[int], None] = lambda _: None,
) -> tuple[list[Judged], float]:
    """The judge's scores of essays, in order, and seconds; `form` learned. BenchmarkError: the first request fails."""
    slots, n_done = asyncio.Semaphore(in_flight), 0

    async def one(essay: JudgedEssay) -> Judged:
        nonlocal n_done
        async with slots:
            try:
                judged = await _ask_judge(essay, protocol, model, completer, form)
            except CompletionError as exc:
                if not n_done:
                    raise BenchmarkError(f'the judge "{model}" does not answer: {exc}') from exc
                judged = Judged(essay_id=essay.essay_id, failure=NO_REPLY)
        n_done += 1
        on_done(n_done)
        return judged

    began = time.monotonic()
    first = await one(essays[0])  # alone: a wrong name or address costs one question
    verdicts = [first, *await asyncio.gather(*map(one, essays[1:]))]
    return verdicts, time.monotonic() - began


async def _ask_judge(
    essay: JudgedEssay, protocol: ProtocolName, model: str, completer: Completer, form: JudgeForm
) -> Judged:
    counting = Counting(completer)
    began = time.monotonic()
    answer = await JudgeClient(counting, model, form=form).ask(
        lambda: question(essay, protocol), lambda text: parse_judgement(text, protocol=protocol)
    )
    return Judged(
        essay_id=essay.essay_id,
        judgement=answer.value,
        failure=UNREAD if answer.value is None else None,
        seconds=time.monotonic() - began,
        attempts=answer.stamp.attempts,
        prompt_tokens=counting.total("prompt_tokens"),
        completion_tokens=counting.total("completion_tokens"),
        fingerprints=counting.fingerprints,
    )


class Counting:
    """A completer that adds up what its requests cost."""

    def __init__(self, inner: Completer) -> None:
        self._inner = inner
        self._usages: list[Mapping[str, int] | None] = []
        self._fingerprints: set[str] = set()

    async def complete(self, request: CompletionRequest) -> Completion:
        completion = await self._inner.complete(request)
        self._usages.append(completion.usage)
        if completion.fingerprint:
            self._fingerprints.add(completion.fingerprint)
        return completion

    async def aclose(self) -> None:
        """The caller closes what it gave."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(sorted(self._fingerprints))

    def total(self, name: str) -> int | None:
        if not self._usages or any(usage is None or name not in usage for usage in self._usages):
            return None
        return sum(int(usage[name]) for usage in self._usages if usage is not None)


def cost(judged: Sequence[Judged], seconds: float) -> Cost:
    """Return the average costs over all essays that got a reply."""
    replied = [verdict for verdict in judged if verdict.failure != NO_REPLY]

    def mean(tokens: Sequence[int | None]) -> float | None:
        counts = [n for n in tokens if n is not None]
        return fmean(counts) if counts and len(counts) == len(tokens) else None

    return Cost(
        n=len(replied),
        seconds=fmean([verdict.seconds for verdict in replied]) if replied else float("nan"),
        a_second=len(replied) / seconds if seconds else float("nan"),
        prompt_tokens=mean([verdict.prompt_tokens for verdict in replied]),
        completion_tokens=mean([verdict.completion_tokens for verdict in replied]),
    )


def with_strong(essays: Sequence[JudgedEssay], judged: Sequence[Judged]) -> AgreementWith:
    """Beside the strong judge. Essays without a reply are in no denominator."""
    replied = [(essay, verdict) for essay, verdict in zip(essays, judged, strict=True) if verdict.failure != NO_REPLY]
    read = [(essay, verdict.judgement) for essay, verdict in replied if verdict.judgement is not None]
    pairs = number_names([essay.pair for essay, _ in read])

    def same(name: str) -> Agreement:
        equal = [getattr(essay.judgement, name) == getattr(judgement, name) for essay, judgement in read]
        return agreeing_share(equal, pairs)

    of_all, found = _finals([(essay.pair, verdict.judgement, essay.judgement.final) for essay, verdict in replied])
    return AgreementWith(
        of_all=of_all, found=found, sections={name: same(name) for name in SECTIONS}, refusals=same("rta")
    )


def with_people(
    essays: Sequence[JudgedEssay], judged: Sequence[Judged], people: Mapping[str, int]
) -> AgreementWith | None:
    """Beside people's final scores by essay_id; None where no essay has one."""
    labelled = [
        (essay.pair, verdict.judgement, people[essay.essay_id])
        for essay, verdict in zip(essays, judged, strict=True)
        if essay.essay_id in people and verdict.failure != NO_REPLY
    ]
    if not labelled:
        return None
    of_all, found = _finals(labelled)
    return AgreementWith(of_all=of_all, found=found, sections={}, refusals=None)


def _finals(rows: Sequence[tuple[str, Judgement | None, int]]) -> tuple[Agreement, JudgeAgreement]:
    """Agreement on final scores, of all essays and of those read. `rows`: pair, judgement, reference's final score."""
    equal = [judgement is not None and judgement.final == final for _, judgement, final in rows]
    read = [(pair, judgement.final, final) for pair, judgement, final in rows if judgement is not None]
    found = judge_agreement(
        [final for *_, final in read],
        [score for _, score, _ in read],
        number_names([pair for pair, *_ in read]),
        rng=seeded_rng(),
        labels=SECTION_SCORES,
    )
    return agreeing_share(equal, number_names([pair for pair, *_ in rows])), found


def difference(
    essays: Sequence[JudgedEssay], candidate: Sequence[Judged], other: Sequence[Judged]
) -> Difference | None:
    """Return how much `candidate` exceeds `other` in the strong judge's final scores, over common essays, or None."""
    clusters: dict[str, list[float]] = {}
    for essay, first, second in zip(essays, candidate, other, strict=True):
        if NO_REPLY in (first.failure, second.failure):
            continue
        sums = clusters.setdefault(essay.pair, [0.0, 0.0, 0.0])
        sums[0] += _is_same(essay, first) - _is_same(essay, second)
        sums[1] += 1
        sums[2] += _is_same(essay, first) != _is_same(essay, second)
    if not clusters:
        return None
    rows = np.array(list(clusters.values()))
    value, n = float(rows[:, 0].sum() / rows[:, 1].sum()), int(rows[:, 1].sum())
    interval, reason = bootstrap_interval(
        rows[:, :2], rows[:, 2], lambda s: np.asarray(s[..., 0] / s[..., 1]), "pairs on which they differ", seeded_rng()
    )
    return Difference(value=value, interval=interval, n=n, n_pairs=len(rows), reason=reason)


def _is_same(essay: JudgedEssay, judged: Judged) -> bool:
    return judged.judgement is not None and judged.judgement.final == essay.judgement.final


def number_names(names: Sequence[str]) -> NDArray[np.intp]:
    """Return (n_names,) the number of each name, by first occurrence."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def seeded_rng() -> np.random.Generator:
    """Return the same draws for every number, so that the same judgements always have the same intervals."""
    return np.random.default_rng(0)


class PersonsLabel(msgspec.Struct, frozen=True):
    """One line of a file of people's final scores. Unknown fields are left out."""

    essay_id: str
    value: int
    annotator: str | None = None


def people(path: Path) -> tuple[dict[str, int], int]:
    """Final scores by essay_id where all labellers agree, and the number of others. BenchmarkError names the line."""
    try:
        content = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a file of labels") from exc
    scores_by_essay: dict[str, set[int]] = {}
    for place, label in decode_lines(content, PersonsLabel, path, "give essay_id and value on every line"):
        if label.value not in SECTION_SCORES:
            raise BenchmarkError(f"{place}: value {label.value} is not a final score: -1, 0, 1 or 2")
        scores_by_essay.setdefault(label.essay_id, set()).add(label.value)
    agreed = {essay_id: values.pop() for essay_id, values in scores_by_essay.items() if len(values) == 1}
    return agreed, len(scores_by_essay) - len(agreed)
