"""Annotations: a person's score of what an auditor scored, in and out as JSON, JSON lines or CSV."""

import csv
import io
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from gateway.api.dependencies import Store
from gateway.api.problems import announced
from gateway.features.labelling import annotations
from gateway.features.labelling.annotations import Annotation, AnnotationRequest

_COLUMNS = [field.name for field in msgspec.structs.fields(Annotation)]


@dataclass
class _InThreeForms(Operation):
    """Litestar announces one media type an answer; this one has three."""

    def __post_init__(self) -> None:
        answer = (self.responses or {})["200"]
        text = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))
        if isinstance(answer, OpenAPIResponse) and answer.content is not None:
            answer.content |= {"application/x-ndjson": text, "text/csv": text}


class AnnotationsController(Controller):
    """One label an annotator, exchange and measurement; the newest counts."""

    path = "/annotations"
    tags = ("annotations",)

    @post("/", summary="Label a measurement", responses=announced(404, 409))
    async def create(self, data: JSONBody[AnnotationRequest], database: Store) -> Annotation:
        fields = msgspec.structs.asdict(data)
        texts = {name: value.replace("\x00", "") for name, value in fields.items() if isinstance(value, str)}
        return await annotations.add(database, msgspec.structs.replace(data, **texts))

    @get(
        "/",
        summary="Labels, oldest first",
        responses={200: ResponseSpec(list[Annotation], description="The labels", generate_examples=False)}
        | announced(),
        operation_class=_InThreeForms,
    )
    async def annotations(
        self,
        database: Store,
        auditor: FromQuery[str | None] = None,
        metric: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        group: FromQuery[str | None] = None,
        model: FromQuery[str | None] = None,
        annotator: FromQuery[str | None] = None,
        since: FromQuery[float | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1_000_000)] = 10_000,
        form: Annotated[Literal["json", "jsonl", "csv"], QueryParameter(name="format")] = "json",
    ) -> Response[bytes]:
        places = {"auditor": auditor, "metric": metric, "axis": axis, "group_name": group}
        filters = {**places, "model": model, "annotator": annotator}
        matches = await annotations.list_annotations(database, filters, since=since, limit=limit)
        match form:
            case "json":
                return Response(msgspec.json.encode(matches), media_type="application/json")
            case "jsonl":
                lines = b"".join(msgspec.json.encode(annotation) + b"\n" for annotation in matches)
                return Response(lines, media_type="application/x-ndjson")
            case "csv":
                written = io.StringIO()
                writer = csv.writer(written)
                writer.writerow(_COLUMNS)
                for annotation in matches:
                    writer.writerow([_cell(getattr(annotation, name)) for name in _COLUMNS])
                return Response(written.getvalue().encode(), media_type="text/csv; charset=utf-8")

    @delete("/{annotation_id:str}", summary="Remove a label", responses=announced(404))
    async def remove(self, annotation_id: FromPath[str], database: Store) -> None:
        await annotations.delete(database, annotation_id)


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value
