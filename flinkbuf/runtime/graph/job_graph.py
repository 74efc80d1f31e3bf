"""The program as tasks: operators that need no network between them share one.

A vertex is a chain of operators, run by as many subtasks as its parallelism says. What one of its operators sends to
another vertex is an intermediate data set, written as one result partition a subtask; an edge says who reads it.
Flink: JobGraph, StreamingJobGraphGenerator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flinkbuf.records.column_exchange import ColumnKeyPartitioner
from flinkbuf.records.partitioner import as_partitioner, by_key, default_max_parallelism
from flinkbuf.runtime.graph.batch_inputs import sort_key_of
from flinkbuf.runtime.graph.edge_wiring import channels_of, subpartition_count
from flinkbuf.runtime.graph.operator_ids import operator_ids
from flinkbuf.runtime.graph.slot_needs import connected, slots_of_widest, widths
from flinkbuf.runtime.graph.stream_graph import (
    DEFAULT_SLOT_SHARING_GROUP,
    GraphSettings,
    StreamEdge,
    StreamGraph,
    StreamNode,
    is_chainable,
    is_committed_behind,
    is_pipelined,
)
from flinkbuf.runtime.graph.transformation import ColumnKeyExchange, CustomExchange, KeyedExchange
from flinkbuf.streaming.chain.operator_config import (
    ChainConfig,
    ChainedEdge,
    HasLifecycle,
    InputConfig,
    NetworkEdge,
    OperatorConfig,
)
from flinkbuf.types.types import TypeInformation, object_type


@dataclass(frozen=True)
class IntermediateDataSet:
    """What one operator of a vertex sends to one other vertex: partition `partition_index` of each subtask."""

    id: str
    producer: JobVertex
    partition_index: int


@dataclass(frozen=True)
class JobEdge:
    """A vertex reads an intermediate data set through the gate `gate_index` of each of its subtasks."""

    source: IntermediateDataSet
    target: JobVertex
    gate_index: int
    is_pointwise: bool
    ship_strategy: str
    is_pipelined: bool = True  # read while it is written, and once; else when it is complete

    def subpartition_count(self, producer: int) -> int:
        """Return how many subpartitions the partition of one subtask of the source has."""
        return subpartition_count(
            producer, self.source.producer.parallelism, self.target.parallelism, self.is_pointwise
        )

    def channels_of(self, consumer: int) -> list[tuple[int, int]]:
        """Return (producer's subtask, index of its subpartition) for each channel of one subtask's gate."""
        return channels_of(consumer, self.source.producer.parallelism, self.target.parallelism, self.is_pointwise)


class JobVertex:
    """A chain of operators that is run as one task, `parallelism` times.

    Attributes
    ----------
    id : str
        That of its head operator.
    chain : ChainConfig
        Operators, head first, and how they are joined; still with the program's own factories.
    outputs : list of JobEdge
        By partition index.
    inputs : list of JobEdge
        By gate index.
    is_in_program : bool
        It uses objects of the program itself: it runs beside the program, in no slot.
    is_committer : bool
        Its head makes visible what cannot be taken back.
    co_location_group : str or None
        Subtasks of one index of all vertices of a group share a slot.
    """

    def __init__(self, id: str, nodes: list[StreamNode], max_parallelism: int) -> None:
        self.id = id
        self.nodes = nodes
        self.parallelism = nodes[0].parallelism
        self.max_parallelism = max_parallelism
        self.slot_sharing_group = nodes[0].slot_sharing_group
        self.co_location_group = _co_location_group(nodes)
        self.is_in_program = nodes[0].is_in_program
        self.is_committer = nodes[0].transformation.is_committer
        self.outputs: list[JobEdge] = []
        self.inputs: list[JobEdge] = []
        self.chain = ChainConfig(())

    @property
    def name(self) -> str:
        """Names of its operators, as Flink shows them: a -> (b, c -> d)."""
        return _chain_name(self.nodes)

    def __repr__(self) -> str:
        return f"<JobVertex {self.name!r}, parallelism {self.parallelism}>"


Wires = dict[StreamEdge, JobEdge]  # what became of the edges that are not chained


@dataclass(frozen=True)
class JobGraph:
    """All vertices, sources first; a reader comes after the vertices it reads from."""

    settings: GraphSettings
    vertices: list[JobVertex]

    @property
    def edges(self) -> Iterator[JobEdge]:
        """Return all edges."""
        return (edge for vertex in self.vertices for edge in vertex.inputs)

    @property
    def slot_count(self) -> int:
        """Slots that the job needs: the highest parallelism of each slot sharing group, summed.

        What runs beside the program takes none. Of a batch job: those of its widest region, since regions that wait for
        each other's results run one after the other.
        """
        needs = [(each.slot_sharing_group, 0 if each.is_in_program else each.parallelism) for each in self.vertices]
        if not self.settings.is_batch:
            return sum(widths(needs).values())
        return slots_of_widest(needs, regions_of(self))


def build_job_graph(graph: StreamGraph) -> JobGraph:
    """Decide what is chained, and make the tasks and the data sets between them."""
    for edge in graph.edges:
        edge.chains = is_chainable(edge, graph.settings)
    ids = operator_ids(graph)
    heads = [node for node in graph.nodes if not (node.in_edges and node.in_edges[0].chains)]
    chains = {head.id: list(_chained(head)) for head in heads}
    vertices = {head.id: JobVertex(ids[head.id], chains[head.id], _max_parallelism(chains[head.id])) for head in heads}
    owner = {node.id: vertices[head] for head, nodes in chains.items() for node in nodes}
    wires: Wires = {}
    streams = is_pipelined(graph)
    for vertex in vertices.values():  # gates are numbered by their reader, in the order of its inputs
        for stream_edge in vertex.nodes[0].in_edges:
            is_read_at_once = streams and not is_committed_behind(stream_edge, graph.settings)
            wires[stream_edge] = _wire(stream_edge, owner[stream_edge.source.id], vertex, ids, is_read_at_once)
    for vertex in vertices.values():
        vertex.chain = _chain_config(vertex, wires, ids, graph.settings.is_batch)
    job = JobGraph(graph.settings, _in_order(list(vertices.values())))
    if graph.settings.is_batch:
        share_slots_by_region(job)
    return job


def regions_of(graph: JobGraph) -> list[list[int]]:
    """Return the vertices, by index, that stream to each other, directly or through others."""
    indexes = {id(vertex): index for index, vertex in enumerate(graph.vertices)}
    pairs = ((indexes[id(edge.source.producer)], indexes[id(edge.target)]) for edge in graph.edges if edge.is_pipelined)
    return connected(len(graph.vertices), pairs)


def share_slots_by_region(graph: JobGraph) -> None:
    """Let only those share slots that stream to each other, where the program does not say who does.

    Flink: StreamingJobGraphGenerator.buildVertexRegionSlotSharingGroups.
    """
    regions = regions_of(graph)
    for number, region in enumerate(regions, 1):
        for vertex in (graph.vertices[index] for index in region):
            if vertex.slot_sharing_group == DEFAULT_SLOT_SHARING_GROUP and len(regions) > 1:
                vertex.slot_sharing_group = f"{DEFAULT_SLOT_SHARING_GROUP}:{number}"


def _chained(node: StreamNode) -> Iterator[StreamNode]:
    """A node and all that is chained to it, each before those behind it."""
    pending = [node]
    while pending:  # no recursion: a chain may be longer than Python's stack
        node = pending.pop()
        yield node
        pending.extend(edge.target for edge in reversed(node.out_edges) if edge.chains)


def _co_location_group(nodes: list[StreamNode]) -> str | None:
    """Return the co-location group of the chain's operators, if one has one."""
    groups = {node.co_location_group: node for node in nodes if node.co_location_group is not None}
    if len(groups) > 1:
        named = ", ".join(f"{node.name!r} in {group!r}" for group, node in groups.items())
        raise ValueError(
            f"operators of one chain cannot be in several co-location groups: {named}; call start_new_chain() on one"
        )
    return next(iter(groups), None)


def _max_parallelism(nodes: list[StreamNode]) -> int:
    """The largest that an operator of the chain asks for; else what Flink makes of the parallelism."""
    asked = [node.max_parallelism for node in nodes if node.max_parallelism is not None]
    return max(asked) if asked else default_max_parallelism(nodes[0].parallelism)


def _wire(
    edge: StreamEdge, producer: JobVertex, consumer: JobVertex, ids: dict[int, str], is_pipelined: bool
) -> JobEdge:
    data_set = IntermediateDataSet(f"{ids[edge.source.id]}-{len(producer.outputs)}", producer, len(producer.outputs))
    job_edge = JobEdge(data_set, consumer, len(consumer.inputs), edge.is_pointwise, edge.ship_strategy, is_pipelined)
    producer.outputs.append(job_edge)
    consumer.inputs.append(job_edge)
    return job_edge


def _chain_config(vertex: JobVertex, wires: Wires, ids: dict[int, str], is_batch: bool) -> ChainConfig:
    places = {node.id: index for index, node in enumerate(vertex.nodes)}
    operators = tuple(_operator_config(node, places, wires, ids) for node in vertex.nodes)
    return ChainConfig(operators, _input_configs(vertex.nodes[0], wires, is_batch), len(vertex.outputs))


def _operator_config(node: StreamNode, places: dict[int, int], wires: Wires, ids: dict[int, str]) -> OperatorConfig:
    transformation = node.transformation
    return OperatorConfig(
        operator_id=ids[node.id],
        name=node.name,
        factory=transformation.factory,
        uid=transformation.uid,
        is_source=transformation.is_source,
        is_keyed=transformation.is_keyed,
        key_type=transformation.key_type,
        chained_edges=tuple(
            ChainedEdge(places[edge.target.id], edge.input_number, edge.output_tag)
            for edge in node.out_edges
            if edge.chains
        ),
        network_edges=tuple(_network_edge(edge, wires[edge]) for edge in node.out_edges if not edge.chains),
    )


def _network_edge(edge: StreamEdge, job_edge: JobEdge) -> NetworkEdge:
    return NetworkEdge(
        partition_index=job_edge.source.partition_index,
        type=_type_of(edge),
        partitioner=_partitioner(edge.partitioner, job_edge.target.max_parallelism),
        output_tag=edge.output_tag,
        buffer_timeout_ms=edge.buffer_timeout_ms,
        functions=_functions_of(edge.partitioner),
    )


def _functions_of(partitioner: object) -> tuple[HasLifecycle, ...]:
    """The user's functions that want to be opened and closed."""
    exchange = partitioner if isinstance(partitioner, (KeyedExchange, CustomExchange)) else None
    found = (getattr(exchange, name, None) for name in ("selector", "partition"))
    return tuple(each for each in found if each is not None and hasattr(each, "open") and hasattr(each, "close"))


def _type_of(edge: StreamEdge) -> TypeInformation:
    return object_type() if edge.type is None else edge.type


def _partitioner(partitioner: object, max_parallelism: int) -> object:
    """Return the partitioner as a record writer takes it."""
    if isinstance(partitioner, KeyedExchange):
        return by_key(partitioner.selector, partitioner.key_type or object_type(), max_parallelism)
    if isinstance(partitioner, ColumnKeyExchange):
        return ColumnKeyPartitioner(partitioner.names, max_parallelism, partitioner.gathers)
    if isinstance(partitioner, CustomExchange):
        return as_partitioner(_ByKeyOfRecord(partitioner))
    return as_partitioner(partitioner)


@dataclass(frozen=True)
class _ByKeyOfRecord:
    """The user's partitioner, as a function of the record."""

    exchange: CustomExchange

    def __call__(self, record: object, channel_count: int) -> int:
        return self.exchange.partition(self.exchange.selector(record), channel_count)

    def __repr__(self) -> str:
        return repr(self.exchange.partition)  # what an error names


def _input_configs(head: StreamNode, wires: Wires, is_batch: bool) -> tuple[InputConfig, ...]:
    """Edges with the same input number are one input: a union of gates."""
    inputs: dict[int, list[StreamEdge]] = {}
    for edge in head.in_edges:
        inputs.setdefault(edge.input_number, []).append(edge)
    return tuple(
        InputConfig(
            _type_of(edges[0]),
            tuple(wires[edge].gate_index for edge in edges),
            sort_key_of(head.transformation.is_keyed, edges[0].partitioner) if is_batch else None,
        )
        for _, edges in sorted(inputs.items())
    )


def _in_order(vertices: list[JobVertex]) -> list[JobVertex]:
    """Order vertices so that a reader comes after all vertices it reads from."""
    done: list[JobVertex] = []
    while len(done) < len(vertices):
        done.extend(
            vertex
            for vertex in vertices
            if vertex not in done and all(edge.source.producer in done for edge in vertex.inputs)
        )
    return done


def _chain_name(nodes: list[StreamNode]) -> str:
    """The name of a chain, whose operators each stand before those behind them."""
    names: dict[int, str] = {}
    for node in reversed(nodes):
        targets = [names[edge.target.id] for edge in node.out_edges if edge.chains]
        behind = targets[0] if len(targets) == 1 else f"({', '.join(targets)})"
        names[node.id] = f"{node.name} -> {behind}" if targets else node.name
    return names[nodes[0].id]
