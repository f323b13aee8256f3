"""Admin keys and data keys open different doors, and every control route has one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.proxy.admission import Admission, Client
from gateway.proxy.headers import RequestHead
from tests.support.gateway.control_plane import control_plane

OPEN = {"/livez", "/readyz", "/metrics", "/console", "/console/{name:str}"}
"""Answered without a key: probes, numbers, and a page that asks for the key itself."""
KEYS = {
    "server": {"admin_key_env": "WHO_ADMIN"},
    "keys": [{"name": "app", "key_env": "WHO_APP"}],
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO_ADMIN", "admin-secret")
    monkeypatch.setenv("WHO_APP", "app-secret")


def routes(app: Litestar) -> Iterator[tuple[str, str]]:
    """Method and path of everything the control plane answers."""
    for route in app.routes:
        for method in sorted(getattr(route, "methods", ())):
            if method != "OPTIONS":
                yield method, route.path


async def test_every_control_route_wants_the_admin_key(tmp_path: Path) -> None:
    """Each route and method there is, found in the app itself, refuses no key, a wrong key and a data key."""
    async with control_plane(tmp_path, **KEYS) as plane:
        app = plane.app
        guarded = [(method, path) for method, path in routes(app) if path not in OPEN]
        answers = {
            (method, path, key): (
                await plane.http.request(
                    method,
                    path.replace("{", "").replace(":str}", "").replace("}", ""),
                    headers={"authorization": f"Bearer {key}"} if key else {},
                )
            ).status_code
            for method, path in guarded
            for key in ("", "wrong", "app-secret", "admin-secre", "admin-secrett")
        }

    assert len(guarded) >= 12
    assert {key: status for key, status in answers.items() if status != 401} == {}


async def test_open_routes_are_few(tmp_path: Path) -> None:
    """What answers without a key is the list above and nothing more."""
    async with control_plane(tmp_path, **KEYS) as plane:
        paths = {path for _, path in routes(plane.app)}
        answered = {
            path
            for path in paths
            if (await plane.http.get(path.replace("{name:str}", "app.js"))).status_code not in (401, 405)
        }

    assert answered <= OPEN


class TestAdminKeyOnTheDataPlane:
    def admit(self, key: bytes, **sections: object) -> bool:
        gate = Admission(validate(KEYS | sections))
        return isinstance(gate.admit(RequestHead([(b"authorization", b"Bearer " + key)]), 0.0), Client)

    def test_it_relays_nothing(self) -> None:
        """The admin key is no data key."""
        assert not self.admit(b"admin-secret")
        assert self.admit(b"app-secret")

    def test_unless_listed(self) -> None:
        """An administrator's key that [[keys]] lists as well is one."""
        assert self.admit(b"admin-secret", keys=[{"name": "admin", "key_env": "WHO_ADMIN"}])

    def test_keys_are_named_by_variable_only(self) -> None:
        """A key written into the file is an unknown setting, and its value is not repeated."""
        with pytest.raises(ConfigError, match=r'unknown key "keys\.0\.key"') as caught:
            validate({"keys": [{"name": "app", "key": "literal-secret"}]})
        with pytest.raises(ConfigError, match=r'unknown key "server\.admin_key"') as other:
            validate({"server": {"admin_key": "literal-secret"}})
        assert "literal-secret" not in str(caught.value) + str(other.value)
