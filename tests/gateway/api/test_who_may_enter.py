"""Control keys and data keys open different doors, every control route has one, and a viewer's opens few."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar, get

from gateway.api.access import Access
from gateway.api.route_access import Audience, all_routes, require_entries, served_routes
from gateway.config.loading import validate
from gateway.control_keys import ControlKeys
from gateway.errors import ConfigError
from gateway.features.labelling import invitations, projects
from gateway.proxy.admission import Admission, Client
from gateway.proxy.headers import RequestHead
from tests.support.gateway.control_plane import ControlPlane, control_plane

ROUTES = all_routes()

KEYS: dict[str, Any] = {
    "server": {
        "admin_key_env": "WHO_ADMIN",
        "control_keys": [
            {"name": "dashboard", "key_env": "WHO_VIEWER"},
            {"name": "auditors", "key_env": "WHO_SECOND_VIEWER", "role": "viewer"},
            {"name": "ops", "key_env": "WHO_SECOND_ADMIN", "role": "admin"},
        ],
    },
    "keys": [{"name": "app", "key_env": "WHO_APP"}],
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO_ADMIN", "admin-secret")
    monkeypatch.setenv("WHO_APP", "app-secret")
    monkeypatch.setenv("WHO_VIEWER", "viewer-secret")
    monkeypatch.setenv("WHO_SECOND_VIEWER", "second-viewer-secret")
    monkeypatch.setenv("WHO_SECOND_ADMIN", "second-admin-secret")


Route = tuple[str, str]
WITHOUT_KEY = {Audience.EVERYBODY, Audience.SCRAPER, Audience.SENDER}
"""A door for senders looks at data keys, see tests/gateway/features/ingest/test_doors.py."""
OPENED_BY_A_VIEWER = WITHOUT_KEY | {Audience.HOLDER, Audience.VISITOR, Audience.VIEWER}
OPENED_BY_A_RATER = WITHOUT_KEY | {Audience.HOLDER, Audience.RATER}


async def ask(plane: ControlPlane, route: Route, key: str, *, project: str = "project") -> httpx.Response:
    """Call a route, with the name of each parameter of its path as its value."""
    method, path = route
    headers = {"authorization": f"Bearer {key}"} if key else {}
    path = path.replace("{project}", project).replace("{rater}", "ann").replace("{", "").replace("}", "")
    return await plane.http.request(method, path, headers=headers)


async def refused(plane: ControlPlane, key: str, status: int, *, project: str = "project") -> set[Route]:
    """Return the routes of the table that answer a key with this status."""
    answers = {route: (await ask(plane, route, key, project=project)).status_code for route in ROUTES}
    assert {status_code for status_code in answers.values() if status_code in (401, 403)} <= {status}
    return {route for route, status_code in answers.items() if status_code == status}


def needing(opened: set[Audience]) -> set[Route]:
    """Return the routes of the table that are for other audiences than these."""
    return {route for route, audience in ROUTES.items() if audience not in opened}


async def test_the_table_lists_what_is_served(tmp_path: Path) -> None:
    """No route of the running app is without an entry, and no entry without a route."""
    async with control_plane(tmp_path) as plane:
        served = set(served_routes(plane.app.routes))

    assert served == ROUTES.keys()


async def test_a_route_without_an_entry_is_served_to_nobody(tmp_path: Path) -> None:
    """An app with one does not start; the guard refuses it too, whatever key comes."""

    @get("/new-numbers", sync_to_thread=False)
    def new_numbers() -> str:
        return "numbers"

    async with control_plane(tmp_path, **KEYS) as plane:
        access = Access(lambda: plane.dataplane.config, [])
        app = Litestar([new_numbers], guards=[access.check_route], openapi_config=None)
        with pytest.raises(LookupError, match="has no entry for GET /new-numbers"):
            require_entries(app.routes)
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # Litestar's own ASGI types
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.get("/new-numbers", headers={"authorization": "Bearer admin-secret"})

    assert answer.status_code == 403


async def test_every_control_route_wants_a_control_key(tmp_path: Path) -> None:
    """Each route of the table, but those for everybody and for senders, refuses no key, wrong keys and a data key."""
    async with control_plane(tmp_path, **KEYS) as plane:
        by_key = {
            key: await refused(plane, key, 401)
            for key in ("", "app-secret", "admin-secre", "admin-secrett", "bgr_made-up")
        }
        without_key = await plane.http.get("/audits")

    assert without_key.headers["content-type"] == "application/problem+json"
    assert without_key.headers["www-authenticate"] == 'Bearer realm="biasgate"'
    assert "Authorization: Bearer" in without_key.json()["detail"]
    assert len(needing(WITHOUT_KEY)) > 60
    without_senders = {route for route in by_key["app-secret"] if ROUTES[route] is not Audience.SENDER}
    assert without_senders == needing(WITHOUT_KEY)
    for routes in by_key.values():
        assert routes >= needing(WITHOUT_KEY)


async def test_a_viewer_opens_what_the_table_says(tmp_path: Path) -> None:
    """Every other route is a 403 that says what it needs; an administrator opens all of them."""
    async with control_plane(tmp_path, **KEYS) as plane:
        closed = await refused(plane, "viewer-secret", 403)
        details = {(await ask(plane, route, "viewer-secret")).json()["detail"] for route in closed}
        to_admins = [await refused(plane, key, 403) for key in ("admin-secret", "second-admin-secret")]

    assert closed == needing(OPENED_BY_A_VIEWER)
    assert details == {'the key "dashboard" is a viewer\'s, which reads numbers only: this needs an admin key'}
    assert to_admins == [set(), set()]


async def test_a_rater_opens_the_tasks_of_one_project(tmp_path: Path) -> None:
    """Every other route, and the same routes of another project, are a 403 that names the rater's own."""
    async with control_plane(tmp_path, **KEYS) as plane:
        await projects.add(plane.database, projects.made_now("own", "essay", 2, {}), [])
        await projects.add(plane.database, projects.made_now("other", "essay", 2, {}), [])
        link = (await invitations.invite(plane.database, "own", ["ann"]))["ann"]
        closed = await refused(plane, link, 403, project="own")
        closed_of_other = await refused(plane, link, 403, project="other")
        detail = (await ask(plane, ("GET", "/labelling/projects/{project}/labels"), link)).json()["detail"]

    assert closed == needing(OPENED_BY_A_RATER)
    assert closed_of_other == needing(OPENED_BY_A_RATER - {Audience.RATER})
    assert detail == 'the link of "ann" opens the tasks of the project "own" and nothing else'


async def test_metrics_behind_a_key(tmp_path: Path) -> None:
    """With protect_metrics a scrape needs any control key; probes and the console's files stay open."""
    server = KEYS["server"] | {"protect_metrics": True}
    async with control_plane(tmp_path, **KEYS | {"server": server}) as plane:
        statuses = {key: (await ask(plane, ("GET", "/metrics"), key)).status_code for key in ("", "app-secret")}
        scraped = await ask(plane, ("GET", "/metrics"), "viewer-secret")
        open_ = [(await ask(plane, ("GET", path), "")).status_code for path in ("/livez", "/console/login")]

    assert statuses == {"": 401, "app-secret": 401}
    assert (scraped.status_code, open_) == (200, [200, 200])
    assert "biasgate_upstream_up" in scraped.text


class TestConfiguration:
    def test_two_keys_of_one_name(self) -> None:
        """The name is in the line; "admin" is taken by server.admin_key_env."""
        twice = [{"name": "a", "key_env": "WHO_ADMIN"}, {"name": "a", "key_env": "WHO_VIEWER"}]
        with pytest.raises(ConfigError, match='two control keys are named "a": give each its own name'):
            validate({"server": {"control_keys": twice}})
        admins = {"admin_key_env": "WHO_ADMIN", "control_keys": [{"name": "admin", "key_env": "WHO_VIEWER"}]}
        with pytest.raises(ConfigError, match=r'named "admin" \(server.admin_key_env has that name\)'):
            validate({"server": admins})

    def test_two_keys_of_one_value(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both names are in the line, and not the value."""
        monkeypatch.setenv("WHO_VIEWER", "admin-secret")
        with pytest.raises(ConfigError, match='"admin" and "dashboard" have the same value') as caught:
            ControlKeys(validate(KEYS))
        assert "admin-secret" not in str(caught.value)

    def test_a_variable_that_is_not_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is named."""
        monkeypatch.delenv("WHO_SECOND_VIEWER")
        with pytest.raises(ConfigError, match="WHO_SECOND_VIEWER"):
            ControlKeys(validate(KEYS))


class TestAdminKeyOnTheDataPlane:
    def admit(self, key: bytes, **sections: object) -> bool:
        gate = Admission(validate(KEYS | sections))
        return isinstance(gate.admit(RequestHead([(b"authorization", b"Bearer " + key)]), 0.0), Client)

    def test_it_relays_nothing(self) -> None:
        """The admin key is no data key, unless [[keys]] lists it as well."""
        assert not self.admit(b"admin-secret")
        assert self.admit(b"app-secret")
        assert self.admit(b"admin-secret", keys=[{"name": "admin", "key_env": "WHO_ADMIN"}])
