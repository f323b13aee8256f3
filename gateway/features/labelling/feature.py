"""The feature `labelling`: people label replies, and choose between them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature

if TYPE_CHECKING:
    from litestar import Router


class Labelling(Feature):
    """See docs/labelling.md."""

    name = "labelling"
    commands = {
        "annotate": Command(
            "gateway.features.labelling.cli",
            "have people label replies: draw tasks, serve them to raters, take labels out",
        )
    }
    controllers = (
        "gateway.features.labelling.annotations_api:AnnotationsController",
        "gateway.features.labelling.api:LabellingController",
    )
    pages = (
        "gateway.features.labelling.raters:LabellingPageController",
        "gateway.features.labelling.raters:RatersController",
    )
    tabs = {"/console/labelling": "Label"}
    text_pages = ("/console/labelling",)
    inserts = {"fingerprints.choices": "links_of_choices.html"}
    routes = {
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
    invitations = "gateway.features.labelling.invitations:StoredInvitations"

    def routers(self) -> Sequence["Router"]:
        from litestar import Router

        from gateway.api.origin import require_json
        from gateway.console.entrance import HANDLERS
        from gateway.features.labelling.visitor import VisitorController

        return [Router("/", route_handlers=[VisitorController], guards=[require_json], exception_handlers=HANDLERS)]
