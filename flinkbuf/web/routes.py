"""All that is answered over HTTP besides static files."""

from collections.abc import Mapping

from flinkbuf.web import (
    cluster_routes,
    command_routes,
    flame_routes,
    health_routes,
    job_routes,
    metric_routes,
    process_routes,
    vertex_routes,
)
from flinkbuf.web.openapi import description_of
from flinkbuf.web.router import Answer, Cluster, Json, Later, Request, Router

ROUTER = Router()
for _each in (
    cluster_routes,
    health_routes,
    process_routes,
    job_routes,
    vertex_routes,
    flame_routes,
    metric_routes,
    command_routes,
):
    ROUTER.include(_each.router)


@ROUTER.route("GET", "/openapi.json")
def openapi(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """All paths, for tools."""
    return description_of(ROUTER)


def answer(request: Request, cluster: Cluster) -> Answer | Later:
    """Return the answer to a request; an error is one, too.

    Examples
    --------
    >>> answer(Request("GET", "/jobs"), Cluster()).body
    {'jobs': []}
    >>> answer(Request("GET", "/nothing"), Cluster()).status
    404
    """
    return ROUTER.answer(cluster, request)
