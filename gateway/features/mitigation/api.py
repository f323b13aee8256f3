"""The API of what policies change."""

from typing import Annotated

from litestar import Controller, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, QueryParameter

from auditors.answer_quality import NAME as QUALITY
from gateway.api.dependencies import Settings, Store
from gateway.api.live import refuse_unknown
from gateway.api.problems import announced
from gateway.features.mitigation import store
from gateway.features.mitigation.store import PolicyEffect, effect_of
from gateway.turns import in_turns

MOST_COMPARISONS = 1_000


class LiveMitigationsController(Controller):
    """Treated against control exchanges: numbers only."""

    path = "/live"
    tags = ("live",)

    @get(
        "/mitigations",
        summary="Effects of policies (docs/mitigation.md#compare-the-arms); auditor=answer: properties of answers",
        responses={200: ResponseSpec(list[PolicyEffect], description="The comparisons", generate_examples=False)}
        | announced(),
    )
    async def mitigations(
        self,
        database: Store,
        config: Settings,
        policy: FromQuery[str | None] = None,
        model: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        auditor: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_COMPARISONS)] = 200,
    ) -> list[PolicyEffect]:
        """Effects of policies with a share between 0 and 1, whose exchanges have been audited. The bounds hold at all
        times. `auditor=answer` gives what accompanies the audits: declined answers, length, times, valid calls of
        tools.
        """
        refuse_unknown(None if auditor == QUALITY else auditor, axis, config.auditors)
        arms = await store.list_arms(database, policy=policy, model=model, axis=axis, auditor=auditor, limit=limit)
        return await in_turns(effect_of, arms)
