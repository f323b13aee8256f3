"""Control keys and data keys open different doors, every control route has one, and a viewer's opens few."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar

from gateway.api.control_keys import ControlKeys
from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.proxy.admission import Admission, Client
from gateway.proxy.headers import RequestHead
from tests.support.gateway.control_plane import ControlPlane, control_plane

OPEN = {"/", "/livez", "/readyz", "/metrics", "/console/login", "/console/labelling", "/console/static/{name:str}"}
"""Answered without a key: probes, numbers, and a page that asks for the key itself."""
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


NUMBERS = {
    ("GET", path)
    for path in (
        *("/suites", "/audits", "/audits/{audit_id:str}", "/schedules", "/schedules/{schedule_id:str}"),
        *(
            f"/audits/{{audit_id:str}}/{part}"
            for part in ("events", "result", "responses", "report", "bundle", "items", "gate")
        ),
        *("/audits/compare", "/audits/compare/report"),
        *("/live/estimates", "/live/detectors", "/live/alarms", "/live/alarms/acknowledgements"),
        *(
            "/live/streams/{stream_id:str}/history",
            "/live/streams/{stream_id:str}/replicas",
            "/live/circuits",
            "/live/ledger",
            "/live/mitigations",
        ),
        *("/live/coverage", "/console/coverage"),
        *("/canaries", "/canaries/{canary_id:str}"),
        *("/judges/calibrations", "/judges/calibrations/{digest:str}"),
        *("/schema", "/schema/{path:str}", "/schema/openapi.json"),
        *(
            "/console",
            "/console/alarms",
            "/console/alarms/{stream_id:str}",
            "/console/fingerprints",
            "/console/fingerprints/suites",
            "/console/fingerprints/suites/{suite:str}",
            "/console/settings",
        ),
        *("/console/audits", "/console/audits/compare", "/console/audits/{audit_id:str}"),
        "/console/audits/{audit_id:str}/items",
    )
}
"""What a viewer may read."""
DOORS = "/ingest/"
"""What others recorded comes in by data keys (tests/gateway/ingest/test_doors.py), and nothing goes out."""
OWN_SESSION = {(method, "/console/session") for method in ("GET", "POST", "DELETE")}
OF_VISITORS = {
    ("GET", "/console/fingerprints/yours"),
    ("GET", "/console/fingerprints/yours/tasks"),
    ("POST", "/console/fingerprints/yours/polygon"),
}
"""Texts that the configuration opens to every holder of a key; what is posted is counted and kept nowhere."""


def routes(app: Litestar) -> Iterator[tuple[str, str]]:
    """Method and path of everything the control plane answers."""
    for route in app.routes:
        for method in sorted(getattr(route, "methods", ())):
            if method != "OPTIONS" and not route.path.startswith(DOORS):
                yield method, route.path


async def ask(plane: ControlPlane, method: str, path: str, key: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return await plane.http.request(
        method, path.replace("{", "").replace(":str}", "").replace("}", ""), headers=headers
    )


async def test_every_control_route_wants_a_control_key(tmp_path: Path) -> None:
    """Each route and method there is, found in the app itself, refuses no key, a wrong key and a data key."""
    async with control_plane(tmp_path, **KEYS) as plane:
        guarded = [(method, path) for method, path in routes(plane.app) if path not in OPEN]
        answers = {
            (method, path, key): (await ask(plane, method, path, key)).status_code
            for method, path in guarded
            for key in ("", "wrong", "app-secret", "admin-secre", "admin-secrett", "viewer-secre")
        }

    assert len(guarded) >= 12
    assert {key: status for key, status in answers.items() if status != 401} == {}


async def test_a_viewer_reads_numbers_and_nothing_else(tmp_path: Path) -> None:
    """Of the routes in the app itself, every one but the list above is a 403 that says what it needs."""
    async with control_plane(tmp_path, **KEYS) as plane:
        guarded = {(method, path) for method, path in routes(plane.app) if path not in OPEN}
        guarded -= OWN_SESSION | OF_VISITORS
        refused = {}
        for method, path in guarded:
            answers = [await ask(plane, method, path, key) for key in ("viewer-secret", "second-viewer-secret")]
            assert len({answer.status_code for answer in answers}) == 1
            if answers[0].status_code == 403:
                refused[method, path] = answers[0].json()["detail"]
        by_admins = {
            (method, path): (await ask(plane, method, path, key)).status_code
            for method, path in guarded
            for key in ("admin-secret", "second-admin-secret")
        }

    assert guarded >= NUMBERS
    assert refused.keys() == guarded - NUMBERS
    assert set(refused.values()) == {
        'the key "dashboard" is a viewer\'s, which reads numbers only: this needs an admin key'
    }
    assert not {401, 403} & set(by_admins.values())


async def test_metrics_behind_a_key(tmp_path: Path) -> None:
    """With protect_metrics a scrape needs any control key; probes and the console's files stay open."""
    server = KEYS["server"] | {"protect_metrics": True}
    async with control_plane(tmp_path, **KEYS | {"server": server}) as plane:
        statuses = {key: (await ask(plane, "GET", "/metrics", key)).status_code for key in ("", "app-secret")}
        scraped = await ask(plane, "GET", "/metrics", "viewer-secret")
        open_ = [(await ask(plane, "GET", path, "")).status_code for path in ("/livez", "/console/login")]

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

    @pytest.mark.parametrize(
        ("server", "words"),
        [
            ({"control_keys": [{"name": "a", "key_env": "X", "role": "owner"}]}, 'known here: "viewer", "admin"'),
            ({"control_keys": [{"name": "", "key_env": "X"}]}, "1 to 100 characters"),
            ({"control_keys": [{"name": "a" * 101, "key_env": "X"}]}, "1 to 100 characters"),
            ({"protect_metrics": True}, "server.protect_metrics is true, but there is no control key"),
        ],
    )
    def test_mistakes_are_one_line(self, server: dict[str, object], words: str) -> None:
        """What is wrong, and what there is instead."""
        with pytest.raises(ConfigError, match=words):
            validate({"server": server})


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
