"""GET /console: the static files of the console, a page that reads the control plane with its reader's session."""

from importlib.resources import files
from pathlib import PurePath

from litestar import Controller, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = frozenset({"index.html", "app.js", "common.js", "labelling.html", "labelling.js", "style.css", "icon.svg"})

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class ConsoleController(Controller):
    """Its files, served from the package."""

    path = "/console"
    include_in_schema = False

    @get("/", sync_to_thread=True)
    def page(self) -> Response[bytes]:
        return _file("index.html")

    @get("/{name:str}", sync_to_thread=True)
    def part(self, name: FromPath[str]) -> Response[bytes]:
        if name not in FILES:
            raise NotFoundException(detail=f'the console has no file "{name}"')
        return _file(name)


def _file(name: str) -> Response[bytes]:
    content = (files("gateway") / "console" / name).read_bytes()
    media_type = MEDIA_TYPES[PurePath(name).suffix]
    return Response(content, headers=HEADERS, media_type=f"{media_type}; charset=utf-8")
