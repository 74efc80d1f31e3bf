"""The description of the REST API, made from its routes: what tools for OpenAPI read.

Flink has one in its documentation, without a path that serves it.
"""

from __future__ import annotations

import re
from typing import Final

from flinkbuf._version import __version__
from flinkbuf.web.router import PARTS, VERSION, Json, Route, Router

OPENAPI: Final = "3.0.3"
_ERRORS: Final = {"$ref": "#/components/schemas/Errors"}


def description_of(router: Router) -> Json:
    """Return what a router answers, as a document of OpenAPI.

    Examples
    --------
    >>> router = Router()
    >>> @router.route("GET", "/jobs/:jobid/status", query={"limit": {"type": "integer"}})
    ... def status(cluster, request, parts):
    ...     \"\"\"Where it is.\"\"\"
    >>> made = description_of(router)["paths"]["/jobs/{jobid}/status"]["get"]
    >>> made["summary"], [(each["name"], each["in"]) for each in made["parameters"]]
    ('Where it is.', [('jobid', 'path'), ('limit', 'query')])
    """
    paths: dict[str, Json] = {}
    for route in sorted(router.routes, key=lambda each: (each.path, each.method)):
        paths.setdefault(re.sub(":([a-z]+)", r"{\1}", route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": OPENAPI,
        "info": {"title": "Jobs of flinkbuf: Flink's REST API", "version": f"{VERSION}/{__version__}"},
        "paths": paths,
        "security": [{}, {"bearer": []}, {"password": []}],
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
            "schemas": {
                "Errors": {
                    "type": "object",
                    "required": ["errors"],
                    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
                }
            },
        },
    }


def _operation(route: Route) -> Json:
    names = re.findall(":([a-z]+)", route.path)
    schemas = {name: {"type": "string", "pattern": f"^{PARTS[name]}$"} for name in names}
    parameters = [{"name": name, "in": "path", "required": True, "schema": schemas[name]} for name in names]
    for name, schema in route.query.items():  # what has several values has commas between them
        shape = {"style": "form", "explode": False, "schema": schema}
        parameters.append({"name": name, "in": "query", "required": name in route.required, **shape})
    lines = (route.handler.__doc__ or "").strip().splitlines()
    made: Json = {"summary": lines[0] if lines else route.path, "parameters": parameters}
    if route.method != "GET":
        made["security"] = [{"bearer": []}, {"password": []}]
    if route.body:
        schema = {"type": "object", "properties": {name: dict(each) for name, each in route.body.items()}}
        made["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    answer: Json = {"application/json": {"schema": {}}}
    if route.path == "/metrics" or route.path.endswith("/log"):
        answer = {"text/plain": {"schema": {"type": "string"}}}
    made["responses"] = {
        "200" if route.method == "GET" else "202": {"description": "It is so.", "content": answer},
        "default": {"description": "Why not.", "content": {"application/json": {"schema": _ERRORS}}},
    }
    return made
