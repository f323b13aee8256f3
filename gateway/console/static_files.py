"""/console/static: scripts, styles and pictures of the pages, open to everybody."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

from litestar import Controller, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect

from gateway.console.showing import HEADERS
from gateway.feature import FEATURES

MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FIGURES = "figures.css"
"""The style sheet of the reports, whose figures the pages show."""


@get("/", sync_to_thread=False, include_in_schema=False)
def to_the_console() -> Redirect:
    """Whoever opens the gateway's bare address is a person."""
    return Redirect("/console")


class StaticController(Controller):
    """Serves files from the package; the browser asks each time if they are still the same."""

    path = "/console"
    include_in_schema = False

    @get("/static/{name:str}", sync_to_thread=True)
    def file(self, name: FromPath[str]) -> Response[bytes]:
        if name == FIGURES:
            return answer_with(files("benchmarks.reporting") / "templates" / name)
        folders = (Path(__file__).parent / "static", *(feature.static() for feature in FEATURES.values()))
        for file in (file for folder in folders for file in folder.glob("*")):
            if file.name == name:
                return answer_with(file)
        raise NotFoundException(detail=f'the console has no file "{name}"')


def answer_with(file: Traversable | Path) -> Response[bytes]:
    """Return a file of the package, which the browser asks for again each time. Its ending gives its media type."""
    media_type = MEDIA_TYPES[PurePath(file.name).suffix]
    return Response(
        file.read_bytes(), headers=HEADERS | {"cache-control": "no-cache"}, media_type=f"{media_type}; charset=utf-8"
    )
