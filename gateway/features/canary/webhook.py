"""Delivers each verdict to the URL in the variable `audits.canary_webhook_env`, at least once, also after a restart."""

import asyncio
import logging
import time

import msgspec

from auditors.clients.single_request import NoAnswerError, request
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.features.canary import deliveries as canary_deliveries
from gateway.features.canary import store as canaries
from gateway.features.canary.deliveries import Delivery
from gateway.store.database import Database

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""Limit for one attempt, from the connection to the status of the answer."""
PAUSES_SECONDS = (1.0, 5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""After each attempt that failed; after one more the delivery has failed for good."""


def read_url(config: Config) -> str | None:
    """Return the webhook's URL, a secret; None if not configured. Raises ConfigError if it is unset or no URL."""
    variable = config.audits.canary_webhook_env
    url = config.secret(variable)
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError(
            f'audits.canary_webhook_env: the value of "{variable}" must be a URL that starts with http:// or https://'
        )
    return url


class Webhook:
    """Call it every now and then; each call attempts all deliveries that are due."""

    def __init__(self, config: Config, database: Database, stop: asyncio.Event) -> None:
        """Raises ConfigError as `read_url` does."""
        self._database = database
        self._stop = stop
        self._url = read_url(config)

    @property
    def is_configured(self) -> bool:
        """True when verdicts are to be delivered."""
        return self._url is not None

    async def __call__(self) -> None:
        """Raises StoreError."""
        if self._url is None:
            return
        while not self._stop.is_set() and (due := await canary_deliveries.take_due(self._database)):
            await self._deliver(self._url, *due)

    async def _deliver(self, url: str, canary_id: str, begun: Delivery) -> None:
        canary = await canaries.get(self._database, canary_id)
        attempt = asyncio.create_task(_post(url, canary_id, msgspec.json.encode(canaries.shown(canary))))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({attempt, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not attempt.done():  # another auditor, or the next start, makes this attempt again
                undone = msgspec.structs.replace(begun, attempts=begun.attempts - 1, next_at=time.time())
                await canary_deliveries.settle(self._database, canary_id, begun, undone)
                return
            problem = attempt.result()
            about, number = f"canary {canary.id}: webhook", f"attempt {begun.attempts} of {len(PAUSES_SECONDS) + 1}"
            if problem is None:
                logger.info("%s: %s was delivered with %s", about, canary.verdict, number)
                settled = Delivery(status="delivered", attempts=begun.attempts, delivered_at=time.time())
            elif begun.attempts > len(PAUSES_SECONDS):
                logger.error("%s: %s failed, %s was not delivered: %s", about, number, canary.verdict, problem)
                settled = msgspec.structs.replace(begun, status="failed", problem=problem, next_at=None)
            else:
                pause = PAUSES_SECONDS[begun.attempts - 1]
                logger.warning("%s: %s failed, the next follows in %g s: %s", about, number, pause, problem)
                settled = msgspec.structs.replace(begun, problem=problem, next_at=time.time() + pause)
            await canary_deliveries.settle(self._database, canary.id, begun, settled)
        finally:
            stopping.cancel()
            attempt.cancel()
            await asyncio.wait({attempt, stopping})


async def _post(url: str, canary_id: str, body: bytes) -> str | None:
    """Return what went wrong, without the URL; None when the answer's status was 2xx. No body of an answer is read."""
    headers = {"content-type": "application/json", "webhook-id": canary_id}
    try:
        answer = await request("POST", url, seconds=TIMEOUT_SECONDS, longest=0, content=body, headers=headers)
    except NoAnswerError as exc:
        return str(exc)
    except Exception as exc:  # an unforeseen error must not end the auditor, and its words may hold the URL
        return f"internal error: {type(exc).__name__}"
    if 300 <= answer.status_code < 400:
        return f"status {answer.status_code}, and redirects are not followed"
    return None if answer.is_success else f"status {answer.status_code}"
