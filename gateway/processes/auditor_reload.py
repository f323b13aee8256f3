"""Reload of a standalone auditor on SIGHUP: new schedules apply at once, anything else restarts it in this process.
Jobs in progress finish or go back to the queue. A file that cannot be used changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

import msgspec

from gateway.auditor import scheduling
from gateway.auditor.part import AuditorFeature
from gateway.auditor.process import run_auditor
from gateway.config.effective import digest
from gateway.config.schema import Config
from gateway.errors import ConfigError, StoreError
from gateway.privacy.texts import texts_of
from gateway.processes.reload import Change, auditor_sections, change_of, describe
from gateway.store import schedules
from gateway.store.database import Database

logger = logging.getLogger(__name__)


class ReloadingAuditor:
    """Audits until stopped, each time by the newest configuration that can be used. `read` gives the wanted
    configuration or raises ConfigError; `on_ready` gets the base URL of the metrics at each (re)start.
    """

    def __init__(
        self,
        config: Config,
        read: Callable[[], Config],
        on_ready: Callable[[str], None],
        features: Iterable[AuditorFeature] = (),
    ) -> None:
        self._features = features
        self._config = config
        self._read = read
        self._on_ready = on_ready
        self._stopping = asyncio.Event()
        self._reload_requested = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    def reload(self) -> None:
        self._reload_requested.set()

    async def run(self) -> None:
        """Run until stopped. Raises ConfigError or StoreError when the first configuration cannot be audited by."""
        previous: Config | None = None
        while not self._stopping.is_set():
            try:
                next_config = await self._audit(self._config)
            except (ConfigError, StoreError) as exc:
                if previous is None:
                    raise
                logger.error("not audited by %s, going back to the one before: %s", digest(self._config), exc)
                self._config, previous = previous, None
                continue
            if next_config is not None:
                previous, self._config = self._config, next_config

    async def _audit(self, config: Config) -> Config | None:
        """One auditor's life: ends with the configuration to go on by, or with None when it is to end."""
        stop = asyncio.Event()
        auditing = asyncio.create_task(run_auditor(config, stop=stop, on_ready=self._on_ready, features=self._features))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while True:
                reload_wait = asyncio.create_task(self._reload_requested.wait())
                await asyncio.wait({auditing, stopping, reload_wait}, return_when=asyncio.FIRST_COMPLETED)
                reload_wait.cancel()
                if auditing.done() or stopping.done():
                    return None
                self._reload_requested.clear()
                if (next_config := await self._reloaded()) is not None:
                    return next_config
        finally:
            stopping.cancel()
            stop.set()
            await auditing

    async def _reloaded(self) -> Config | None:
        """Reads the file. Returns the configuration to restart with, where that is needed. Never raises."""
        try:
            change = change_of(self._config, self._read(), "auditor")
            await self._adopt_schedules(change)
        except (ConfigError, StoreError) as exc:
            logger.error("configuration not reloaded, %s stays in force: %s", digest(self._config), exc)
            return None
        logger.warning("configuration reloaded: %s", describe(change))
        logging.getLogger().setLevel(change.config.telemetry.log_level.upper())
        if _needs_restart(self._config, change):
            return change.config
        self._config = change.config
        return None

    async def _adopt_schedules(self, change: Change) -> None:
        """Raises ConfigError for a schedule that cannot be run, before anything has changed."""
        planned = scheduling.configured(change.config)
        if change.config.audits.schedules == self._config.audits.schedules:
            return
        database = await Database.open(change.config.store.url, texts=texts_of(change.config))
        try:
            await schedules.adopt(database, planned)
        finally:
            await database.close()


def _needs_restart(current: Config, change: Change) -> bool:
    audits = msgspec.structs.replace(current.audits, schedules=change.config.audits.schedules)
    telemetry = msgspec.structs.replace(current.telemetry, log_level=change.config.telemetry.log_level)
    alike = msgspec.structs.replace(current, audits=audits, telemetry=telemetry)
    return any(getattr(alike, name) != getattr(change.config, name) for name in auditor_sections())
