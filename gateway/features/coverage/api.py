"""The API of what no suite covers."""

from litestar import Controller, get
from litestar.openapi.datastructures import ResponseSpec

from gateway.api.dependencies import Store
from gateway.api.problems import announced
from gateway.errors import NotFoundError
from gateway.features.coverage import store
from gateway.features.coverage.figures import Coverage

NOT_COMPUTED = (
    "what no suite covers has not been computed: an auditor does so every audits.coverage_every_hours, with the "
    "embedder of [auditors.embedding]"
)


class LiveCoverageController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)

    @get(
        "/coverage",
        summary="What no suite covers: the traffic that names an identity beside the questions of suites",
        responses={200: ResponseSpec(Coverage, description="The newest computation", generate_examples=False)}
        | announced(404),
    )
    async def coverage(self, database: Store) -> Coverage:
        """Of the newest sampled prompts. `examples` are ids for `GET /live/exchanges?exchange_id=`."""
        found = await store.newest(database)
        if found is None:
            raise NotFoundError(NOT_COMPUTED)
        return found
