"""The feature `labelling`: people label replies, and choose between them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature

if TYPE_CHECKING:
    from litestar import Controller, Router

    from gateway.invitations import Invitations
    from gateway.store.database import Database


class Labelling(Feature):
    """See docs/labelling.md."""

    name = "labelling"

    def commands(self) -> Mapping[str, Command]:
        summary = "have people label replies: draw tasks, serve them to raters, take labels out"
        return {"annotate": Command("gateway.features.labelling.cli", summary)}

    def controllers(self) -> Sequence["type[Controller]"]:
        from gateway.features.labelling.annotations_api import AnnotationsController
        from gateway.features.labelling.api import LabellingController

        return [AnnotationsController, LabellingController]

    def routers(self) -> Sequence["Router"]:
        from litestar import Router

        from gateway.api.origin import require_json
        from gateway.console.entrance import HANDLERS
        from gateway.features.labelling.visitor import VisitorController

        return [Router("/", route_handlers=[VisitorController], guards=[require_json], exception_handlers=HANDLERS)]

    def pages(self) -> Sequence["type[Controller]"]:
        from gateway.features.labelling.raters import LabellingPageController, RatersController

        return [LabellingPageController, RatersController]

    def tabs(self) -> Mapping[str, str]:
        return {"/console/labelling": "Label"}

    def text_pages(self) -> Sequence[str]:
        return ["/console/labelling"]

    def inserts(self) -> Mapping[str, str]:
        return {"fingerprints.choices": "links_of_choices.html"}

    def routes(self) -> Mapping[str, str]:
        return {
            "GET /console/labelling": "EVERYBODY",
            "GET /console/fingerprints/yours": "VISITOR",
            "GET /console/fingerprints/yours/tasks": "VISITOR",
            "POST /console/fingerprints/yours/polygon": "VISITOR",
            "POST /labelling/projects/{project}/next": "RATER",
            "GET /labelling/projects/{project}/tasks/{task}": "RATER",
            "PUT /labelling/projects/{project}/tasks/{task}/labels/{rater}": "RATER",
            "GET /annotations": "ADMIN",
            "POST /annotations": "ADMIN",
            "DELETE /annotations/{annotation_id}": "ADMIN",
            "GET /labelling/projects": "ADMIN",
            "POST /labelling/projects": "ADMIN",
            "GET /labelling/projects/{project}": "ADMIN",
            "DELETE /labelling/projects/{project}": "ADMIN",
            "GET /labelling/projects/{project}/disputes": "ADMIN",
            "GET /labelling/projects/{project}/labels": "ADMIN",
            "PUT /labelling/projects/{project}/tasks/{task}/decision": "ADMIN",
            "GET /console/fingerprints/raters": "ADMIN",
            "GET /console/fingerprints/raters/{project}": "ADMIN",
        }

    def invitations(self, database: "Database") -> "Invitations":
        from gateway.features.labelling.invitations import StoredInvitations

        return StoredInvitations(database)
