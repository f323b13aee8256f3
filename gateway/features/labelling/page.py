"""/console/labelling: the raters' page."""

from pathlib import Path

from litestar import Controller, Response, get

from gateway.console.static_files import answer_with

LABELLING_PAGE = "/console/labelling"
FILE = Path(__file__).parent / "labelling.html"


class LabellingPageController(Controller):
    """Open to everybody: the page itself shows nothing of the store."""

    path = LABELLING_PAGE
    include_in_schema = False

    @get("/", sync_to_thread=True)
    def labelling(self) -> Response[bytes]:
        """Draws itself by its script, from the API, for raters who may hold no key of the gateway's other pages."""
        return answer_with(FILE)
