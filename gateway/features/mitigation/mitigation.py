"""The part of the policies in a worker: which policy holds for a request, and how it is carried out."""

from gateway.config.schema import Config
from gateway.features.mitigation.config import MITIGATION
from gateway.features.mitigation.filters.filter import HeldBytes, PolicyFilters, filter_of
from gateway.features.mitigation.filters.treatment import FilteredTreatment
from gateway.features.mitigation.policies import Policies
from gateway.features.mitigation.treatment import Treatment
from gateway.proxy.headers import RequestHead
from gateway.sampling.decision import marking
from gateway.worker_part import WorkerContext, WorkerPart


class Mitigation:
    """The policies of a configuration in a worker; see `gateway.proxy.types.Mitigation`."""

    def __init__(self, config: Config, secret: bytes) -> None:
        self._policies = Policies(config, secret)
        sign = marking(secret)
        self._held = HeldBytes(config.server.max_buffered_bytes)
        self._filters = {
            policy.name: PolicyFilters(
                filter_of(config, section, policy.query, section.query_filter, sign),
                filter_of(config, section, policy.response, section.response_filter, sign),
            )
            for policy, section in zip(self._policies.all, MITIGATION.of(config), strict=True)
            if policy.has_filters
        }

    def treatment(
        self, *, method: bytes, path: bytes, key: str | None, model: str | None, head: RequestHead, content: bytes
    ) -> "Treatment | None":
        policy_match = self._policies.of(method, path, key, model)
        if policy_match is None:
            return None
        policy, endpoint = policy_match
        arm, unit = self._policies.assign(
            policy, endpoint, key=key, lines=head.lines, content=content, exchange_id=head.exchange_id
        )
        if policy.has_filters:
            return FilteredTreatment(policy, endpoint, arm, self._filters[policy.name], self._held, unit)
        return Treatment(policy, endpoint, arm, unit)

    async def aclose(self) -> None:
        for filters in self._filters.values():
            await filters.aclose()


def mitigation_of(config: Config, secret: bytes) -> Mitigation | None:
    """Return the policies; None without a policy: then nothing at all is asked of a request."""
    return Mitigation(config, secret) if MITIGATION.of(config) else None


class MitigationPart(WorkerPart):
    """The part of the policies in one worker."""

    def __init__(self, context: WorkerContext) -> None:
        self._secret = context.secret

    def mitigation(self, config: Config) -> Mitigation | None:
        return mitigation_of(config, self._secret)
