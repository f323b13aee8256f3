"""/console/runbooks: what to do about an alert, as the manual says; alerts lead here without configuration."""

import asyncio
import re
from typing import Any

from litestar import Controller, Response, get
from litestar.params import FromPath
from markupsafe import Markup

from gateway.api.dependencies import Asked
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import NotFoundError
from gateway.features.deploy.files import deployment_files


class RunbooksController(Controller):
    path = "/console/runbooks"
    include_in_schema = False

    @get("/{name:str}")
    async def runbook(self, request: Asked, pages: PageFrame, name: FromPath[str]) -> Response[Any]:
        title, text = await asyncio.to_thread(read_runbook, name)

        async def build() -> View:
            return View(template="runbook.html", title=title, tab="/console/alarms", data={"text": text})

        return await pages.shown(request, build)


def read_runbook(name: str) -> tuple[str, Markup]:
    """Return the title and the text of a runbook, without links to other pages of the manual. Raises NotFoundError."""
    from markdown_it import MarkdownIt  # 20 ms, which a worker does not pay at its start

    file = deployment_files().get(f"docs/runbooks/{name}")
    if file is None:
        raise NotFoundError(f'there is no runbook "{name[:80]}"')
    title, _, text = file.read_text(encoding="utf-8").partition("\n")
    text = re.sub(r" \(\[[^]]*\]\(\.\.[^)]*\)\)", "", text)
    text = re.sub(r"\[([^]]*)\]\(\.\.[^)]*\)", r"\1", text)
    rendered = MarkdownIt("commonmark", {"html": False}).render(text)
    return title.removeprefix("# "), Markup(rendered)  # noqa: S704 - the renderer escapes HTML in the package's file
