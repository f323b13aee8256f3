"""The route of bundles."""

from litestar import Controller, get
from litestar.params import FromPath
from litestar.response import Stream

from gateway.api.audits import finished
from gateway.api.dependencies import Settings, Store
from gateway.api.problems import announced
from gateway.store import runs


class BundlesController(Controller):
    """Bundles of the runs of the store."""

    path = "/audits"
    tags = ("audits",)

    @get(
        "/{audit_id:str}/bundle",
        summary="A finished run as a verifiable file (docs/bundles.md#from-a-running-gateway)",
        media_type="application/x-tar",
        responses=announced(404, 409, 429),
    )
    async def bundle(self, audit_id: FromPath[str], database: Store, config: Settings) -> Stream:
        from gateway.features.bundles.packing import packed  # a worker loads no benchmarks before the first bundle

        run = await finished(database, audit_id, "bundle")
        archive = await packed(database, await runs.with_prompts(database, run), config)
        name = f'attachment; filename="{audit_id}.bundle"'
        headers = {"content-length": str(archive.size), "content-disposition": name}
        return Stream(archive.pieces(), headers=headers, media_type="application/x-tar")
