"""A policy's filter: its plan, its detector, and its findings in texts."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from auditors.clients.completion import Sign
from gateway.config.schema import Config
from gateway.features.mitigation.config import MitigationConfig, QueryFilterConfig
from gateway.features.mitigation.filter_plan import FilterPlan
from gateway.features.mitigation.filters.detector import (
    BoundedDetector,
    ClassifierDetector,
    Detector,
    DetectorError,
    JudgeDetector,
)
from gateway.features.mitigation.filters.excerpt import Excerpt

logger = logging.getLogger(__name__)

Finding = Literal["clean", "biased", "timed_out", "failed", "unsupported"]
"""Finding of a filter. unsupported: the texts have nothing that the filter could look at, or more than it looks at."""


class HeldBytes:
    """Bytes of answers that one worker holds back, all together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class Filter:
    """Shared by all requests of a policy; holds no state of any of them."""

    def __init__(self, plan: FilterPlan, detector: BoundedDetector) -> None:
        self.plan = plan
        self._detector = detector

    async def look(self, texts: Sequence[Excerpt], *, demands_all: bool) -> Finding:
        """Return whether any of these texts is biased, each for itself; blank ones are clean. Ends within the time
        limit; never raises. `demands_all`: a text too long to be looked at as a whole is unsupported.
        """
        if demands_all and not all(text.is_whole for text in texts):
            return "unsupported"
        looks = (self._detector.is_biased(text.text) for text in texts if text.text.strip())
        outcomes = await asyncio.gather(*looks, return_exceptions=True)
        if any(outcome is True for outcome in outcomes):
            return "biased"
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if not failures:
            return "clean"
        for failure in failures:
            if not isinstance(failure, DetectorError):
                logger.error("%s: a detector failed", self.plan.name, exc_info=failure)
        is_late = any(isinstance(failure, DetectorError) and failure.timed_out for failure in failures)
        return "timed_out" if is_late else "failed"

    async def aclose(self) -> None:
        await self._detector.aclose()


class PolicyFilters(msgspec.Struct, frozen=True):
    """The filters of a policy."""

    query: Filter | None
    response: Filter | None

    async def aclose(self) -> None:
        for filter_ in (self.query, self.response):
            if filter_ is not None:
                await filter_.aclose()


def filter_of(
    config: Config, policy: MitigationConfig, plan: FilterPlan | None, settings: QueryFilterConfig | None, sign: Sign
) -> Filter | None:
    """Opens no connection. Raises ConfigError for an environment variable that is not set."""
    if plan is None or settings is None:
        return None
    key, seconds = config.secret(settings.api_key_env), policy.timeout_seconds
    detector: Detector
    if plan.head is not None and plan.threshold is not None:
        detector = ClassifierDetector(settings.base_url, key, plan.head, plan.threshold, timeout=seconds, sign=sign)
    else:
        detector = JudgeDetector(settings.base_url, key, plan.model, plan.prompt or "", timeout=seconds, sign=sign)
    name = f'{plan.name} of mitigation "{policy.name or ""}"'
    return Filter(plan, BoundedDetector(detector, name, seconds=seconds))
