"""Tells the URL in the variable `audits.canary_webhook_env` of each verdict."""

import asyncio
import logging

import httpx
import msgspec

from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.store.canaries import Canary, shown

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
PAUSES_SECONDS = (1.0, 5.0)
"""Before the second and the third try; then the verdict is to be had by GET alone."""


class Webhook:
    """Posts what `GET /canaries/{id}` shows, as JSON. A URL that does not take it changes no verdict."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError for a variable that is not set or holds no URL; it is a secret and never shown."""
        variable = config.audits.canary_webhook_env
        self._url = config.secret(variable)
        if self._url is not None and not self._url.startswith(("http://", "https://")):
            raise ConfigError(
                f'audits.canary_webhook_env: the value of "{variable}" must be a URL that starts with http:// or https://'
            )

    async def tell(self, canary: Canary) -> None:
        """Tries three times, then leaves a line in the log. Never raises for what the URL does."""
        if self._url is None:
            return
        body = msgspec.json.encode(shown(canary))
        for pause in (*PAUSES_SECONDS, None):
            problem = await self._post(self._url, body)
            if problem is None:
                return
            if pause is None:
                logger.error("canary %s: the webhook was not told of %s: %s", canary.id, canary.verdict, problem)
            else:
                await asyncio.sleep(pause)

    async def _post(self, url: str, body: bytes) -> str | None:
        """What went wrong; None when it was taken."""
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False) as client:
                answer = await client.post(url, content=body, headers={"content-type": "application/json"})
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            return type(exc).__name__  # its words may hold the URL
        return None if answer.is_success else f"status {answer.status_code}"
