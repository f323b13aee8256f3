"""Judges a reference set again when it is due: as many replies as it has, drawn with replacement."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from pathlib import Path

from auditors import judge_reference
from auditors.clients.judge_client import JudgeClient
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.judge_reference import ReferenceItem, ReferenceSet, ReferenceSetError, judged_again
from auditors.streams.drift import DriftSettings
from auditors.text.thinking import OFF, Thinking, parse_thinking
from auditors.types import Completer, CompletionError
from gateway.auditor.clients import own_server
from gateway.auditor.part import AuditorContext, AuditorPart, Periodic
from gateway.config.schema import Config, JudgeConfig
from gateway.errors import ConfigError
from gateway.store import judge_passes, served
from gateway.store.database import Database
from gateway.streams import updates

logger = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Pause between two looks whether a pass is due."""


_NEEDS_OWN_SERVER = "auditors.judge.reference_set needs auditors.judge.model and base_url: the judge's own"


def read_reference_set(section: JudgeConfig) -> tuple[ReferenceSet, str, str]:
    """Return the set, its file's digest and the judging model. Raises ConfigError for another judge's set, or none."""
    if section.base_url is None or section.model is None:
        raise ConfigError(_NEEDS_OWN_SERVER)
    try:
        reference_set, digest = judge_reference.read(Path(section.reference_set or ""))
        judge_reference.require_judge(reference_set, section.model, str(_thinking(section)))
    except ReferenceSetError as exc:
        raise ConfigError(f"auditors.judge.reference_set {section.reference_set}: {exc}") from exc
    return reference_set, digest, section.model


def _thinking(section: JudgeConfig) -> Thinking:
    return OFF if section.thinking is None else parse_thinking(section.thinking)


class ReferencePasses:
    """Call it every now and then; it does nothing until a pass is due."""

    def __init__(
        self, config: Config, database: Database, judge: Completer | None, settings: DriftSettings, stop: asyncio.Event
    ) -> None:
        """Read the set; `judge` asks its own server, None without. Raises ConfigError as `read_reference_set`."""
        self._database, self._stop, self._set = database, stop, None
        self._every_seconds = config.auditors.judge.reference_every_hours * 3600.0
        self._settings, self._at_once = settings, config.auditors.judge.max_concurrency
        self._max_tokens = config.auditors.judge.max_tokens
        section = config.auditors.judge
        if section.reference_set is None or not section.enabled:
            return
        self._set, self._digest, model = read_reference_set(section)
        if judge is None:
            raise ConfigError(_NEEDS_OWN_SERVER)
        self._settings = judge_passes.watched_by(self._set, self._digest, settings)
        self._judge = JudgeClient(ThinkingCompleter(judge, _thinking(section), expects_whole=True), model)

    async def __call__(self) -> None:
        """One pass, if it is due. Raises StoreError."""
        if self._set is None:
            return
        if not await judge_passes.take(self._database, self._digest, self._every_seconds, time.time()):
            return
        drawn = random.SystemRandom().choices(self._set.items, k=len(self._set.items))
        for first in range(0, len(drawn), self._at_once):
            if self._stop.is_set():
                return
            await asyncio.gather(*map(self._judge_again, drawn[first : first + self._at_once]))

    async def _judge_again(self, item: ReferenceItem) -> None:
        try:
            measurements = await judged_again(item, self._judge, self._max_tokens)
        except CompletionError as exc:
            logger.warning("a reply of the judge's reference set was not judged: %s", exc)
            return
        stamp = measurements[0].judge
        if stamp is not None and stamp.fingerprint is not None:
            seen = {stamp.model: stamp.fingerprint}
            await served.observe(self._database, own_server("judge"), seen, asked_at=time.time(), runs_of=lambda _: ())
        await updates.record_judgement(self._database, measurements, self._judge.model, self._settings)


class ReferencePart(AuditorPart):
    """The watch over the judge in an auditor."""

    def __init__(self, context: AuditorContext) -> None:
        """Raises ConfigError for a reference set that cannot be used."""
        judge = context.enabled_auditors.judge
        self._passes = ReferencePasses(context.config, context.database, judge, context.settings, context.stop)

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(LOOK_SECONDS, self._passes)]
