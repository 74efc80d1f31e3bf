"""The program for readers: Flink's JSON of the stream graph, and a drawing of the tasks for the terminal."""

from __future__ import annotations

import json

from flinkbuf.runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from flinkbuf.runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

WIDTH = 100  # columns of the drawing


def to_json(graph: StreamGraph) -> str:
    """Return the plan as Flink's visualizer reads it. Flink: JSONGenerator.

    Examples
    --------
    >>> from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
    >>> from flinkbuf.runtime.graph.transformation import OperatorTransformation
    >>> source = OperatorTransformation("numbers", None, [], factory=list, is_source=True)
    >>> print(to_json(build_stream_graph([source], GraphSettings())))
    {
      "nodes" : [ {
        "id" : 1,
        "type" : "Source: numbers",
        "pact" : "Data Source",
        "contents" : "Source: numbers",
        "parallelism" : 1
      } ]
    }
    """
    nodes = sorted(graph.nodes, key=lambda node: (node.transformation.is_sink, node.id))
    return _pretty({"nodes": [_node_as_dict(node) for node in nodes]})


def _node_as_dict(node: StreamNode) -> dict[str, object]:
    what: dict[str, object] = {
        "id": node.id,
        "type": node.name,
        "pact": _pact(node),
        "contents": node.description,
        "parallelism": node.parallelism,
    }
    if not node.transformation.is_source:
        what["predecessors"] = [_edge_as_dict(edge) for edge in node.in_edges]
    return what


def _pact(node: StreamNode) -> str:
    if node.transformation.is_source:
        return "Data Source"
    return "Data Sink" if node.transformation.is_sink else "Operator"


def _edge_as_dict(edge: StreamEdge) -> dict[str, object]:
    # Flink says "second" for every predecessor, the first one too; its readers are used to it.
    return {"id": edge.source.id, "ship_strategy": edge.ship_strategy, "side": "second"}


def _pretty(value: object, indent: str = "") -> str:
    """Return JSON as Jackson's pretty printer writes it: " : ", and lists on the line of their brackets."""
    if isinstance(value, dict):
        inner = indent + "  "
        fields = ",\n".join(f"{inner}{json.dumps(key)} : {_pretty(each, inner)}" for key, each in value.items())
        return f"{{\n{fields}\n{indent}}}"
    if isinstance(value, list):
        return "[ " + ", ".join(_pretty(each, indent) for each in value) + " ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)


def draw(graph: JobGraph) -> str:
    """Return the tasks of a job as text: each with its operators, its parallelism, and what it reads how.

    Examples
    --------
    >>> from flinkbuf.runtime.graph.job_graph import build_job_graph
    >>> from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
    >>> from flinkbuf.runtime.graph.transformation import OperatorTransformation
    >>> source = OperatorTransformation("numbers", None, [], factory=list, is_source=True, parallelism=1)
    >>> doubled = OperatorTransformation("Map", None, [source], factory=list)
    >>> printed = OperatorTransformation("Print to Std. Out", None, [doubled], factory=list, is_sink=True)
    >>> program = build_stream_graph([printed], GraphSettings("doubles", parallelism=2))
    >>> print(draw(build_job_graph(program)))
    doubles: 2 tasks, 3 subtasks, 2 slots
    <BLANKLINE>
    [1] Source: numbers  x 1
    <BLANKLINE>
    [2] Map -> Sink: Print to Std. Out  x 2
        from [1] by REBALANCE
    """
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices, 1)}
    subtasks = sum(vertex.parallelism for vertex in graph.vertices)
    title = (
        f"{graph.settings.job_name}: {_count(len(graph.vertices), 'task')}, {_count(subtasks, 'subtask')}, "
        f"{_count(graph.slot_count, 'slot')}"
    )
    return "\n\n".join([title, *(_draw_vertex(vertex, numbers) for vertex in graph.vertices)])


def _draw_vertex(vertex: JobVertex, numbers: dict[str, int]) -> str:
    lines = [f"[{numbers[vertex.id]}] {_shortened(vertex.name)}  x {vertex.parallelism}"]
    lines += [f"    from [{numbers[edge.source.producer.id]}] by {_way(edge)}" for edge in vertex.inputs]
    return "\n".join(lines)


def _way(edge: JobEdge) -> str:
    tag = next(
        network_edge.output_tag
        for operator in edge.source.producer.chain.operators
        for network_edge in operator.network_edges
        if network_edge.partition_index == edge.source.partition_index
    )
    return edge.ship_strategy if tag is None else f"{edge.ship_strategy}, side output {tag!r}"


def _shortened(name: str) -> str:
    return name if len(name) <= WIDTH else name[: WIDTH - 3] + "..."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
