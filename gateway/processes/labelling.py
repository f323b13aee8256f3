"""The labelling page and its API on their own: `biasgate annotate serve`."""

from collections.abc import Callable

import msgspec
import uvicorn
from litestar import Litestar, Router, get
from litestar.di import Provide
from litestar.response import Redirect

from gateway.api import problems
from gateway.api.access import Access
from gateway.api.labelling import LabellingController
from gateway.api.origin import require_json
from gateway.api.replies import forbid_sniffing
from gateway.api.sessions import SessionsController
from gateway.config.schema import Config
from gateway.console.static_files import StaticController
from gateway.errors import ConfigError
from gateway.privacy.texts import texts_of
from gateway.processes.app import MAX_CONTROL_BODY_BYTES
from gateway.processes.exposure import is_loopback
from gateway.processes.listening import bind, reachable, root_url
from gateway.store.database import Database

PAGE = "/console/labelling"


def labelling_app(config: Config, database: Database) -> Litestar:
    """Raises ConfigError when the variable of the key is not set."""
    access = Access(lambda: config)

    def provided(value: object) -> Provide:
        return Provide(lambda: value, sync_to_thread=False, use_cache=True)

    return Litestar(
        route_handlers=[
            _to_the_page,
            StaticController,
            Router("/", route_handlers=[SessionsController], guards=[require_json, access.require_holder]),
            Router("/", route_handlers=[LabellingController], guards=[require_json, access.require_admin]),
        ],
        dependencies={"access": provided(access), "config": provided(config), "database": provided(database)},
        request_max_body_size=MAX_CONTROL_BODY_BYTES,
        exception_handlers=problems.HANDLERS,
        before_send=[forbid_sniffing],
        openapi_config=None,
        logging_config=None,
    )


@get("/", sync_to_thread=False)
def _to_the_page() -> Redirect:
    return Redirect(PAGE)


async def serve(config: Config, *, host: str, port: int, key_env: str | None, on_ready: Callable[[str], None]) -> int:
    """Until it is told to stop. `on_ready` is told the address once the port is open.

    Raises: ConfigError for an address that cannot be had, or that others reach without a key; StoreError as
        `Database.open`.
    """
    key_env = key_env or config.server.admin_key_env
    config = msgspec.structs.replace(
        config, server=msgspec.structs.replace(config.server, host=host, port=port, admin_key_env=key_env)
    )
    if not (key_env or config.server.control_keys or is_loopback(host)):
        raise ConfigError(f'host "{host}" would be open to all who reach this machine: give --admin-key-env VAR')
    database = await Database.open(config.store.url, migrate=False, texts=texts_of(config))
    try:
        app = labelling_app(config, database)
        with bind(host, port) as listener:
            on_ready(f"{root_url(*reachable(listener, host))}/")
            await uvicorn.Server(
                uvicorn.Config(app, ws="none", log_config=None, access_log=False, server_header=False)
            ).serve(sockets=[listener])
    finally:
        await database.close()
    return 0
