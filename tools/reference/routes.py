"""The routes of the control plane: of the OpenAPI by tag, and of every route by the callers that it admits."""

import asyncio
import functools
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.api.route_access import Audience, all_routes
from tests.support.gateway.control_plane import control_plane
from tools.reference.markdown import table

METHODS = ("get", "post", "put", "delete")
Operation = Mapping[str, Any]


def write_listings() -> Mapping[str, str]:
    """Return a table of operations for each tag of the OpenAPI."""
    schema = _read_schema()
    audiences = all_routes()
    rows: dict[str, list[tuple[str, str, str]]] = {}
    bodies: dict[str, str] = {}
    for path, operations in sorted(schema["paths"].items()):
        for method in filter(operations.get, METHODS):
            route, operation = f"{method.upper()} {path}", operations[method]
            effect = "; ".join([operation["summary"], *_write_inputs(route, operation, schema, bodies)])
            caller = _write_caller(audiences[method.upper(), path])
            rows.setdefault(operation["tags"][0], []).append((f"`{route}`", caller, effect))
    return {tag: table(("route", "who", "effect"), listed) for tag, listed in rows.items()}


def write_audiences() -> Mapping[str, str]:
    """Return the table of callers, each with the routes that it may call and that the OpenAPI leaves out."""
    paths = _read_schema()["paths"]
    rows = []
    for audience in Audience:
        routes = [route for route, its in all_routes().items() if its is audience]
        others = [f"`{method} {path}`" for method, path in routes if method.lower() not in paths.get(path, ())]
        api = ["[API](api.md)"] if len(others) < len(routes) else []
        rows.append((audience.value, ", ".join(api + others)))
    return {"routes": table(("who", "routes"), rows)}


def _write_caller(audience: Audience) -> str:
    return re.sub("^(an?|any) ", "", re.split("[:;,]", audience.value)[0])


def _write_inputs(route: str, operation: Operation, schema: Operation, bodies: dict[str, str]) -> Iterator[str]:
    """Yield the parameters of the query, then the fields of the body, each in brackets if optional.

    Args:
        bodies: the first route that takes a body, by the schema of the body; added to.
    """
    query = [item for item in operation.get("parameters", ()) if item["in"] == "query"]
    if query:
        names = (item["name"] if item["required"] else f"[{item['name']}]" for item in query)
        yield f"query `{', '.join(names)}`"
    for reference in re.findall(r"'#/components/schemas/(\w+)'", str(operation.get("requestBody", {}))):
        body = schema["components"]["schemas"][reference]
        fields = [name if name in body.get("required", ()) else f"[{name}]" for name in body["properties"]]
        earlier = bodies.setdefault(reference, route)
        yield f"body `{', '.join(fields)}`" if earlier == route else f"body of `{earlier}`"


@functools.cache
def _read_schema() -> Operation:
    async def read(directory: Path) -> Operation:
        async with control_plane(directory) as plane:
            return plane.app.openapi_schema.to_schema()

    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(read(Path(directory)))
