"""/console/session: a key, posted once, becomes a signed cookie; a rater's link is a cookie, checked at each use."""

from typing import Any

import msgspec
from litestar import Controller, Request, Response, delete, get, post
from litestar.datastructures import Cookie, State

from gateway.api.access import SESSION_COOKIE, rater_token
from gateway.api.dependencies import Entry
from gateway.api.problems import announced
from gateway.control_keys import SESSION_SECONDS, Holder, Role


class Session(msgspec.Struct, frozen=True):
    """The holder for which the console acts."""

    name: str
    role: Role
    expires_at: int | None
    """Unix second in which the session ends; null where there is none, and for a rater's link."""
    project: str | None = None
    """The labelling project that a rater's link opens; null for a control key."""


_GONE = Cookie(key=SESSION_COOKIE, value="", max_age=0, path="/", httponly=True, samesite="strict")


class SessionsController(Controller):
    """One cookie, `HttpOnly` and `SameSite=Strict`; the value of a control key's is signed, and no key."""

    path = "/console/session"
    tags = ("console",)

    @get("/", summary="Name, role and end of the session; of a rater's link the project", responses=announced())
    async def session(self, request: Request[Holder, Any, State], access: Entry) -> Session:
        cookie_entry = access.keys.session_holder(request.cookies.get(SESSION_COOKIE, ""))
        holder = request.user
        return Session(holder.name, holder.role, cookie_entry[1] if cookie_entry else None, holder.project)

    @post("/", status_code=200, summary="Exchange a bearer key for a cookie of eight hours", responses=announced())
    async def begin(self, request: Request[Holder, Any, State], access: Entry) -> Response[Session]:
        holder = request.user
        expires: int | None = None
        if holder.role == "rater":
            value = rater_token(request) or ""
        elif not access.keys:
            return Response(Session(holder.name, holder.role, None))
        else:
            value, expires = access.keys.session(holder)
        cookie = Cookie(
            key=SESSION_COOKIE,
            value=value,
            max_age=SESSION_SECONDS,
            path="/",
            httponly=True,
            samesite="strict",
            # What the browser itself says of the page it is on; a proxy's word about the scheme is not asked for.
            secure=request.headers.get("origin", "").lower().startswith("https://"),
        )
        return Response(Session(holder.name, holder.role, expires, holder.project), cookies=[cookie])

    @delete("/", summary="End the session", responses=announced(), response_cookies=[_GONE])
    async def end(self) -> None:
        """The browser forgets the cookie."""
