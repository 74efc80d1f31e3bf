"""What the threads of a task are doing, as Flink's REST API says it. Flink: JobVertexFlameGraphHandler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flinkbuf.runtime.protocol.flame_tree import KINDS
from flinkbuf.web.router import TEXT, Cluster, HttpError, Json, Request, Router, whole
from flinkbuf.web.vertex_routes import VERTEX, subtask_of

router = Router()
_SUBTASKS_MAX: Final = 10**9


@router.route("GET", VERTEX + "/flamegraph", query={"type": TEXT, "subtaskindex": whole(0, _SUBTASKS_MAX)})
def flame_graph(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """The last one; if that is old, or there is none, its threads are looked at: who asks again gets what was seen."""
    _, found = cluster.vertex(parts)
    kind = (request.one("type") or "FULL").upper()
    if kind not in KINDS:
        raise HttpError(400, f'Cannot resolve query parameter (type) from value "{kind[:80]}".')
    subtask = None
    if request.one("subtaskindex") is not None:
        subtask = request.number("subtaskindex", 0, 0, _SUBTASKS_MAX)
        subtask_of(found, {"subtaskindex": str(subtask)})
    return cluster.job(parts).flame_graph(found.plan.id, subtask, kind)
