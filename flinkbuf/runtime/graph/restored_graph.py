"""A program that begins from a checkpoint: what it takes over from there where the user set nothing.

Flink: StateAssignmentOperation.checkParallelismPreconditions, which adopts the maximum parallelism of a checkpoint.
"""

from __future__ import annotations

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.runtime.graph.operator_ids import operator_ids
from flinkbuf.runtime.graph.stream_graph import StreamGraph


def adopt_max_parallelism(graph: StreamGraph, metadata: CheckpointMetadata) -> None:
    """Let operators without a configured maximum parallelism take that of the checkpoint.

    It says how keys fall into groups, and follows from the parallelism where it is not set: state of 2 subtasks would
    not fit 200. Before the job graph is made, since partitioners know it, too.

    Raises
    ------
    ValueError
        An operator has more subtasks than the checkpoint has key groups.
    """
    known = {each.operator_id: vertex for vertex in metadata.vertices for each in vertex.operators}
    for number, operator_id in operator_ids(graph).items():
        node, vertex = graph.nodes[number - 1], known.get(operator_id)
        if vertex is None or node.max_parallelism is not None:
            continue
        if node.parallelism > vertex.max_parallelism:
            raise ValueError(
                f"operator {node.name!r} has parallelism {node.parallelism}, but the state that it begins from is cut "
                f"into {vertex.max_parallelism} key groups: it can have that many subtasks at most"
            )
        node.max_parallelism = vertex.max_parallelism
