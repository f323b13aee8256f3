"""The entrance to the console: the page for logging in, and the answer to visitors who may not see a page."""

import asyncio
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from litestar import Controller, Request, Response, get
from litestar.datastructures import State
from litestar.exceptions import HTTPException, NotAuthorizedException, PermissionDeniedException
from litestar.params import FromQuery
from litestar.response import Redirect

from gateway.api import problems
from gateway.console.rendering import View, render
from gateway.console.showing import page, surroundings
from gateway.errors import GatewayError

LOGIN = "/console/login"


class LoginController(Controller):
    """Open to everybody. Its script posts the key once to /console/session, and goes on to where the reader wanted."""

    path = LOGIN
    include_in_schema = False

    @get("/")
    async def login(self, to: FromQuery[str] = "/console") -> Response[str]:
        to = to if to.startswith("/console") and "\\" not in to else "/console"
        view = View(template="login.html", title="Log in", data={"to": to})
        shell = surroundings(None, is_locked=False)
        return page((await asyncio.to_thread(render, view, shell)).html)


def to_the_entrance(request: Request[Any, Any, State], exc: NotAuthorizedException) -> Response[Any]:
    """A reader without a session logs in; the script of an open page is told that the session is over."""
    if _is_script(request):
        return problems.from_http_exception(request, exc)
    return _entrance(request)


def refused(request: Request[Any, Any, State], exc: PermissionDeniedException) -> Response[Any]:
    """A link on another site's page is followed without the session, as the cookie demands: the entrance sees to it."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _is_script(request):
        return _entrance(request)
    return answer_error(request, exc)


def answer_error(request: Request[Any, Any, State], exc: HTTPException | GatewayError) -> Response[Any]:
    """An error as a page, or as the API's problem to a script."""
    problem = (
        problems.from_gateway_error(request, exc)
        if isinstance(exc, GatewayError)
        else problems.from_http_exception(request, exc)
    )
    if _is_script(request):
        return problem
    status = problem.status_code or 500
    data = {"status": status, "detail": problem.content["detail"]}
    view = View(template="problem.html", title=HTTPStatus(status).phrase, data=data)
    return page(render(view, surroundings(request.scope.get("user"), is_locked=False)).html, status)


HANDLERS: dict[Any, Any] = {
    NotAuthorizedException: to_the_entrance,
    PermissionDeniedException: refused,
    HTTPException: answer_error,
    GatewayError: answer_error,
}


def _entrance(request: Request[Any, Any, State]) -> Redirect:
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return Redirect(f"{LOGIN}?to={quote(target, safe='/')}", status_code=303)


def _is_script(request: Request[Any, Any, State]) -> bool:
    return "text/html" not in request.headers.get("accept", "text/html")
