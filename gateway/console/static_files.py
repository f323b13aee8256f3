"""/console/static: scripts, styles and pictures of the pages, open to everybody; and the raters' page."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from litestar import Controller, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect

from gateway.console.showing import HEADERS

MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LABELLING_PAGE = "/console/labelling"
FIGURES = "figures.css"
"""Of the reports, whose figures the pages show."""
FILES = frozenset(
    {"live.js", "forms.js", "audits.js", "login.js", "common.js", "labelling.js", "visitor.js", "style.css", "icon.svg"}
)


@get("/", sync_to_thread=False, include_in_schema=False)
def to_the_console() -> Redirect:
    """Whoever opens the gateway's bare address is a person."""
    return Redirect("/console")


class StaticController(Controller):
    """From the package; the browser asks each time whether they are still the same."""

    path = "/console"
    include_in_schema = False

    @get("/static/{name:str}", sync_to_thread=True)
    def file(self, name: FromPath[str]) -> Response[bytes]:
        if name == FIGURES:
            return _answer(files("benchmarks.reporting") / "templates" / name)
        if name not in FILES:
            raise NotFoundException(detail=f'the console has no file "{name}"')
        return _file(name)

    @get("/labelling", sync_to_thread=True)
    def labelling(self) -> Response[bytes]:
        """Draws itself by its script, from the API, for raters who may hold no key of the gateway's other pages."""
        return _file("labelling.html")


def _file(name: str) -> Response[bytes]:
    return _answer(files("gateway.console") / "static" / name)


def _answer(file: Traversable) -> Response[bytes]:
    media_type = MEDIA_TYPES[PurePath(file.name).suffix]
    return Response(
        file.read_bytes(), headers=HEADERS | {"cache-control": "no-cache"}, media_type=f"{media_type}; charset=utf-8"
    )
