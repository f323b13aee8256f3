"""Computes what no suite covers when it is due, and keeps it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import numpy as np

from auditors.clients.embedders import EmbedderError
from auditors.types import CompletionError, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.reporting.headline import key_of
from benchmarks.run.plan import RunOptions
from benchmarks.run.score import cells
from benchmarks.run.stopping import checkpoint_of, in_thread, unless_stopped
from benchmarks.suites.registry import SUITES
from gateway.auditor.metrics import data_kind
from gateway.auditor.metrics_snapshot import exported
from gateway.config.schema import Config
from gateway.errors import ConflictError, StoreError
from gateway.features.coverage import store as coverages
from gateway.features.coverage.figures import Coverage, Reweighted, Share, Threshold
from gateway.features.coverage.prompts import Prompts
from gateway.features.coverage.questions import questions_of_all
from gateway.features.coverage.resemblance import Vectors, nearest, units
from gateway.features.coverage.reweighting import reweighted
from gateway.features.coverage.store import NO_EXCHANGES, RETRY_SECONDS, Asked
from gateway.features.coverage.threshold import calibrate
from gateway.features.coverage.traffic import NEAR_DUPLICATE, Compared, Prompt, Traffic, share_of
from gateway.features.coverage.vectors import embedded_where_possible, vectors_of
from gateway.store import passes, runs, stored_runs
from gateway.store.database import Database
from gateway.store.runs import Run

logger = logging.getLogger(__name__)

PAGE = 50
"""Exchanges read in one step."""
MOST_RUNS = 40
"""Finished runs that are reweighted, the newest."""
NAME = "coverage"
Loading = Callable[[], Awaitable[Embedder | None]]
NO_EMBEDDER = "no embedder is loaded: no enabled auditor needs one; enable [auditors.embedding]"


class CoveragePasses:
    """Call it every now and then; it does nothing until a computation is due."""

    def __init__(
        self, config: Config, database: Database, stop: asyncio.Event, embedder: Loading, max_weight_share: float = 1.0
    ) -> None:
        """`embedder` waits for the embedder; `max_weight_share`: see `auditors.streams.drift.DriftSettings`."""
        self._every_seconds = config.audits.coverage_every_hours * 3600.0
        self._data_dir = stored_runs.data_dir(config)
        self._max_weight_share = max_weight_share
        self._database, self._stop, self._embedder = database, stop, embedder
        self._checkpoint = checkpoint_of(stop, _stopped)

    async def __call__(self) -> None:
        """Compute if due; it answers requests of meanwhile, and if stopped is due again. Raises StoreError."""
        newest = await coverages.newest(self._database)
        due_at, now = await coverages.next_at(self._database, newest, self._every_seconds), time.time()
        was_set_back = newest is not None and newest.at >= now + passes.AHEAD_SECONDS
        if due_at is None or (due_at > now and not was_set_back):
            return
        lease_seconds = min(self._every_seconds or RETRY_SECONDS, RETRY_SECONDS)
        if newest is not None and not was_set_back:  # the pass that ended with the newest computation holds no lease
            lease_seconds = min(lease_seconds, now - newest.at)
        if not await passes.take(self._database, NAME, lease_seconds, now):
            return
        try:
            coverage = await unless_stopped(self._stop, self._computed(), _stopped)
        except RunStopped:
            await passes.forget(self._database, NAME)
            return
        await coverages.add(self._database, coverage)
        await passes.forget(self._database, coverages.REQUEST)

    async def _computed(self) -> Coverage:
        prompts, last = Prompts(self._max_weight_share), None
        while not prompts.is_full:
            page: list[Asked] = await coverages.read_page(self._database, before=last, limit=PAGE)
            if not page:
                break
            last = page[-1]
            await in_thread(prompts.read, page)
        if not prompts.n_read:
            return _without_numbers(prompts, None, NO_EXCHANGES)
        try:
            embedder = await self._embedder()
        except EmbedderError as exc:
            return _without_numbers(prompts, None, f"the embedder cannot be loaded: {exc}")
        if embedder is None:
            return _without_numbers(prompts, None, NO_EMBEDDER)
        if not prompts.naming:
            return _without_numbers(prompts, embedder.name, "no prompt that was read names an identity")
        try:
            return await self._compared(prompts, embedder)
        except CompletionError as exc:
            return _without_numbers(prompts, embedder.name, f"the embedder did not answer: {exc}")
        except (BenchmarkError, ValueError) as exc:
            return _without_numbers(prompts, embedder.name, f"the suites' questions cannot be compared: {exc}")
        except (RunStopped, StoreError):
            raise
        except Exception as exc:  # of a suite that another distribution brings: nothing else of the auditor ends by it
            logger.exception("what no suite covers could not be computed")
            return _without_numbers(prompts, embedder.name, f"internal error: {type(exc).__name__}: {exc}")

    async def _compared(self, prompts: Prompts, embedder: Embedder) -> Coverage:
        naming, vectors = await self._embedded(prompts.naming, embedder)
        if n_lost := len(prompts.naming) - len(naming):
            prompts.excluded["no_embedding"] += n_lost
        if not naming:
            return _without_numbers(prompts, embedder.name, "no prompt that names an identity has an embedding")
        traffic = await in_thread(Traffic, naming, vectors)
        enough = traffic.distinct_share(np.ones(len(vectors), dtype=np.bool_))
        if enough.value is None:  # then no suite's questions need be embedded
            return _without_numbers(prompts, embedder.name, enough.reason or "", enough)
        of_all = await in_thread(questions_of_all, self._data_dir, self._checkpoint)
        nonempty = [entry for entry in of_all if entry.chosen]
        of_suites = [await vectors_of(entry, embedder, self._data_dir, self._checkpoint) for entry in nonempty]
        threshold = await in_thread(calibrate, nonempty, of_suites)
        pairs = zip(nonempty, of_suites, strict=True)
        compared = [await in_thread(traffic.compared, entry, own) for entry, own in pairs]
        findings = await in_thread(traffic.compare_with_suites, compared, threshold)
        ordinary = await self._embedded(prompts.ordinary, embedder)
        by_suite = {comparison.asked.suite: comparison for comparison in compared}
        finished = exported(await runs.newest_done(self._database))
        chosen = sorted(finished, key=lambda run: -(run.finished_at or 0.0))[:MOST_RUNS]
        estimates = []
        for run in sorted(chosen, key=lambda run: (run.suite, run.model, run.id)):
            if run.suite in by_suite:
                self._checkpoint()
                estimates.append(await self._of_run(run, traffic, by_suite[run.suite], threshold))
        return Coverage(
            **prompts.counts,
            **findings._asdict(),
            at=time.time(),
            embedder=embedder.name,
            ordinary=await in_thread(_ordinary, *ordinary, of_suites, threshold),
            reweighted=estimates,
            largest_key_share=traffic.largest_key_share,
        )

    async def _embedded(self, prompts: Sequence[Prompt], embedder: Embedder) -> tuple[list[Prompt], Vectors]:
        texts = [prompt.text for prompt in prompts]
        vectors, indices = await embedded_where_possible(texts, embedder, self._checkpoint)
        return [prompts[place] for place in indices], vectors

    async def _of_run(self, run: Run, traffic: Traffic, compared: Compared, threshold: Threshold) -> Reweighted:
        questions, headline = compared.asked, SUITES[run.suite].headline
        try:
            if data_kind(run) != questions.data:
                raise BenchmarkError(f"the run asked {data_kind(run)} data, and what is compared is {questions.data}")
            whole = await stored_runs.find(self._database, run.id)
            result = stored_runs.result_of(whole, "result")
            plan = await in_thread(stored_runs.planned, whole, self._data_dir)
            observations = await stored_runs.observations(self._database, whole, plan)
            options = msgspec.convert(whole.options, RunOptions)
            formed = await in_thread(cells, options, plan.suite, observations)
            of_headline = [cell for cell in formed if cell.key == headline]
            own = [estimate for estimate in result.estimates if key_of(estimate) == headline]
            if not of_headline or not own:
                raise BenchmarkError(f"the run has no {headline.metric}, the number that stands for {run.suite}")
            return await in_thread(
                reweighted, of_headline[0], plan.items, run.id, run.model, own[0], traffic, compared, threshold.value
            )
        except (BenchmarkError, ConflictError) as exc:
            return Reweighted(
                run=run.id,
                suite=run.suite,
                model=run.model,
                **headline._asdict(),
                suite_value=None,
                value=None,
                represents=0.0,
                n=0,
                n_units=0,
                n_clusters=0,
                n_effective_clusters=0.0,
                reason=f"not assessable: {exc}",
            )


def _ordinary(prompts: Sequence[Prompt], vectors: Vectors, of_suites: Sequence[Vectors], threshold: Threshold) -> Share:
    if not prompts:
        return _no_share("no prompt was read that names no identity")
    best = np.max([nearest(vectors, own)[0] for own in of_suites], axis=0)
    of_units = units(vectors, NEAR_DUPLICATE, [prompt.sender for prompt in prompts])
    return share_of(np.array([prompt.weight for prompt in prompts]), of_units, best >= threshold.value)


def _without_numbers(prompts: Prompts, embedder: str | None, reason: str, share: Share | None = None) -> Coverage:
    none = _no_share(reason)
    return Coverage(
        **prompts.counts,
        at=time.time(),
        embedder=embedder,
        unmatched=share or none,
        unmatched_distinct=share or none,
        ordinary=none,
        reason=reason,
    )


def _no_share(reason: str) -> Share:
    return Share(value=None, n=0, n_units=0, n_effective=0.0, reason=reason)


def _stopped() -> RunStopped:
    return RunStopped(0, 0)
