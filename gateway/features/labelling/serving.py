"""The labelling page and its API without a gateway: `biasgate annotate serve`."""

from collections.abc import Callable

import msgspec
import uvicorn
from litestar import Litestar, Router, get
from litestar.di import Provide
from litestar.response import Redirect

from gateway.api import problems
from gateway.api.access import Access
from gateway.api.origin import require_json
from gateway.api.replies import forbid_sniffing
from gateway.api.route_access import all_routes, require_entries
from gateway.api.sessions import SessionsController
from gateway.config.schema import Config
from gateway.console.static_files import StaticController
from gateway.errors import ConfigError
from gateway.features.labelling.api import LabellingController
from gateway.features.labelling.invitations import StoredInvitations
from gateway.features.labelling.raters import LABELLING_PAGE, LabellingPageController
from gateway.privacy.texts import texts_of
from gateway.processes.app import MAX_CONTROL_BODY_BYTES
from gateway.processes.listening import bind, reachable, root_url
from gateway.processes.usable import is_loopback
from gateway.store.database import Database


def labelling_app(config: Config, database: Database) -> Litestar:
    """Return the app; without a control key each user of this machine is an administrator until a rater has a link."""
    is_public = not is_loopback(config.server.host)
    routes = all_routes()
    links = [StoredInvitations(database)]
    access = Access(lambda: config, links, is_public=is_public, asks_raters_for_links=True, routes=routes)

    def provide(value: object) -> Provide:
        return Provide(lambda: value, sync_to_thread=False, use_cache=True)

    app = Litestar(
        route_handlers=[
            _to_the_page,
            StaticController,
            LabellingPageController,
            Router("/", route_handlers=[SessionsController, LabellingController], guards=[require_json]),
        ],
        guards=[access.check_route],
        dependencies={"access": provide(access), "config": provide(config), "database": provide(database)},
        request_max_body_size=MAX_CONTROL_BODY_BYTES,
        exception_handlers=problems.HANDLERS,
        before_send=[forbid_sniffing],
        openapi_config=None,
        logging_config=None,
    )
    require_entries(app.routes, routes)
    return app


@get("/", sync_to_thread=False)
def _to_the_page() -> Redirect:
    return Redirect(LABELLING_PAGE)


async def serve(
    config: Config, *, host: str, port: int, key_env: str | None, migrate: bool, on_ready: Callable[[str], None]
) -> int:
    """Serve until stopped; `on_ready` receives the address. Raises ConfigError for an address that cannot be bound, or
    is public without a control key or link; StoreError as `Database.open`.
    """
    key_env = key_env or config.server.admin_key_env
    config = msgspec.structs.replace(
        config, server=msgspec.structs.replace(config.server, host=host, port=port, admin_key_env=key_env)
    )
    database = await Database.open(config.store.url, migrate=migrate, texts=texts_of(config))
    try:
        app = labelling_app(config, database)
        has_key = bool(key_env or config.server.control_keys)
        if not (has_key or is_loopback(host) or await StoredInvitations(database).any_exists()):
            raise ConfigError(
                f'host "{host}": no rater could enter: give each rater a link (annotate invite PROJECT --rater NAME), '
                "or give --api-key-env VAR"
            )
        with bind(host, port) as listener:
            on_ready(f"{root_url(*reachable(listener, host))}/")
            await uvicorn.Server(
                uvicorn.Config(app, ws="none", log_config=None, access_log=False, server_header=False)
            ).serve(sockets=[listener])
    finally:
        await database.close()
    return 0
