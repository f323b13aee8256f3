"""The console's session: a key is posted once, and what the browser keeps is neither a key nor of use to others."""

from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.loading import validate
from gateway.control_keys import SESSION_SECONDS, ControlKeys, Holder
from tests.support.gateway.control_plane import ControlPlane, control_plane

KEYS = {"ADMIN_KEY": "sesame-of-the-admin", "VIEWER_KEY": "sesame-of-the-viewer"}
SERVER = {"admin_key_env": "ADMIN_KEY", "control_keys": [{"name": "Küche; a=b", "key_env": "VIEWER_KEY"}]}
OWN = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
NAME = "biasgate_session"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


async def log_in(plane: ControlPlane, key: str = "ADMIN_KEY", **headers: str) -> httpx.Response:
    plane.http.cookies.clear()
    sent = OWN | {"authorization": f"Bearer {KEYS[key]}"} | headers
    return await plane.http.post("/console/session", headers=sent)


def cookie_of(answer: httpx.Response) -> Any:
    return SimpleCookie(answer.headers["set-cookie"])[NAME]


async def with_cookie(plane: ControlPlane, value: str, method: str = "GET", **headers: str) -> int:
    """Status of a request that carries this cookie and nothing else."""
    plane.http.cookies.clear()
    sent = {"cookie": f"{NAME}={value}"} | headers
    path = "/live/estimates" if method == "GET" else "/live/alarms/none/acknowledge"
    body = None if method == "GET" else {"by": "ann", "reason": "a new model"}
    return (await plane.http.request(method, path, headers=sent, json=body)).status_code


async def test_a_key_becomes_a_cookie(tmp_path: Path) -> None:
    """HttpOnly, Strict, for eight hours; no key is in it, whatever it is decoded as."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        answer = await log_in(plane)
        cookie = cookie_of(answer)
        read = await with_cookie(plane, cookie.value)
        changed = await with_cookie(plane, cookie.value, "POST", **OWN)

    assert answer.json()["name"] == "admin"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (int(cookie["max-age"]), cookie["secure"]) == (SESSION_SECONDS, "")
    assert (read, changed) == (200, 404)
    assert not [key for key in KEYS.values() if key in answer.headers["set-cookie"]]


async def test_over_tls_it_stays_there(tmp_path: Path) -> None:
    """A page that the browser says was loaded over https gets a Secure cookie; nobody else's word is asked for."""
    async with control_plane(tmp_path, server=SERVER | {"allowed_hosts": ["bias.example"]}) as plane:
        over_tls = await log_in(plane, origin="https://bias.example", host="bias.example")
        forwarded = await log_in(plane, **{"x-forwarded-proto": "https"})

    assert cookie_of(over_tls)["secure"] is True
    assert cookie_of(forwarded)["secure"] == ""


async def test_the_role_is_the_keys(tmp_path: Path) -> None:
    """A viewer's session reads numbers, changes nothing and shows no text; whoever asks is told who they are."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        value = cookie_of(await log_in(plane, "VIEWER_KEY")).value
        told = (await plane.http.get("/console/session", headers={"cookie": f"{NAME}={value}"})).json()
        read = await with_cookie(plane, value)
        changed = await with_cookie(plane, value, "POST", **OWN)
        text = await plane.http.get("/live/exchanges", headers={"cookie": f"{NAME}={value}"})

    assert (told["name"], told["role"]) == ("Küche; a=b", "viewer")
    assert told["expires_at"] > 0
    assert (read, changed, text.status_code) == (200, 403, 403)


async def test_a_replaced_key_takes_its_sessions_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart accepts the cookie while the key is the same; with another key or none the cookie is worthless."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        value = cookie_of(await log_in(plane)).value
    async with control_plane(tmp_path, server=SERVER) as restarted:
        assert await with_cookie(restarted, value) == 200
    async with control_plane(tmp_path, server={"control_keys": SERVER["control_keys"]}) as without:
        assert await with_cookie(without, value) == 401
    monkeypatch.setenv("ADMIN_KEY", "the next one")
    async with control_plane(tmp_path, server=SERVER) as replaced:
        assert await with_cookie(replaced, value) == 401


def test_it_ends() -> None:
    """After its eight hours it is nobody's, and no later time can be written into it."""
    keys = ControlKeys(validate({"server": SERVER}))
    admin = Holder("admin", "admin")
    value, expires = keys.session(admin, now=1000.0)
    name, _, rest = value.split(".", 2)

    assert expires == 1000 + SESSION_SECONDS
    assert keys.session_holder(value, now=expires - 1) == (admin, expires)
    assert keys.session_holder(value, now=expires) is None
    assert keys.session_holder(f"{name}.{expires + 1}.{rest}", now=1000.0) is None


@pytest.mark.parametrize("change", ["name", "signature", "empty", "dots", "huge"])
def test_what_was_made_up_is_nobodys(change: str) -> None:
    """A viewer's cookie cannot be made an admin's, and rubbish is no error."""
    keys = ControlKeys(validate({"server": SERVER}))
    value, _ = keys.session(Holder("Küche; a=b", "viewer"), now=1000.0)
    theirs, _ = keys.session(Holder("admin", "admin"), now=1000.0)
    made_up = {
        "name": ".".join([theirs.split(".")[0], *value.split(".")[1:]]),
        "signature": value[:-1] + ("0" if value[-1] != "0" else "1"),
        "empty": "",
        "dots": "...",
        "huge": "YWRtaW4." + "9" * 5000 + ".x.y",
    }[change]

    assert keys.session_holder(made_up, now=1000.0) is None
    assert keys.session_holder(value, now=1000.0) is not None


async def test_a_browser_adds_it_for_no_other_page(tmp_path: Path) -> None:
    """Another site, another port of this machine, a page without an origin: 403, although the cookie is right."""
    elsewhere: list[tuple[str, dict[str, str]]] = [
        ("GET", {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}),
        ("GET", {"sec-fetch-site": "cross-site"}),
        ("GET", {"sec-fetch-site": "same-site"}),
        ("GET", {"origin": "http://localhost:3000"}),
        ("POST", {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}),
        ("POST", {"origin": "null"}),
        ("POST", {}),
    ]
    async with control_plane(tmp_path, server=SERVER) as plane:
        value = cookie_of(await log_in(plane)).value
        for method, headers in elsewhere:
            assert await with_cookie(plane, value, method, **headers) == 403, (method, headers)


async def test_a_page_of_an_allowed_host_needs_a_key(tmp_path: Path) -> None:
    """server.allowed_hosts lets a page call with a key of its own, not with the console's session."""
    async with control_plane(tmp_path, server=SERVER | {"allowed_hosts": ["bias.example"]}) as plane:
        value = cookie_of(await log_in(plane)).value
        page = {"origin": "https://bias.example", "sec-fetch-site": "cross-site"}
        by_cookie = await with_cookie(plane, value, **page)
        keyed = page | {"authorization": f"Bearer {KEYS['VIEWER_KEY']}"}
        by_key = (await plane.http.get("/live/estimates", headers=keyed)).status_code

    assert (by_cookie, by_key) == (403, 200)


async def test_a_wrong_key_beside_a_right_cookie_is_wrong(tmp_path: Path) -> None:
    """A key that is sent decides alone; a password for a proxy in front is none."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        value = cookie_of(await log_in(plane)).value
        refused = await with_cookie(plane, value, authorization="Bearer no")
        behind_a_proxy = await with_cookie(plane, value, authorization="Basic dXNlcjpwYXNz")

    assert (refused, behind_a_proxy) == (401, 200)
