"""What a job master knows of a program: vertices, edges and how wide they are; no functions. Plain and frozen.

Flink: the part of JobGraph and JobVertex that the scheduler reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf.runtime.graph.edge_wiring import BLOCKING, PIPELINED_BOUNDED, channels_of, subpartition_count
from flinkbuf.runtime.graph.job_graph import JobGraph, JobVertex


@dataclass(frozen=True)
class EdgePlan:
    """A vertex reads what another one writes."""

    source: int  # index of the vertex in the plan
    target: int
    partition_index: int  # among the partitions of a subtask of the source
    gate_index: int  # among the gates of a subtask of the target
    is_pointwise: bool
    ship_strategy: str = ""
    partition_type: str = PIPELINED_BOUNDED

    @property
    def is_pipelined(self) -> bool:
        """Say whether the edge is read while it is written, and only once."""
        return self.partition_type.startswith("PIPELINED")


@dataclass(frozen=True)
class OperatorPlan:
    """One operator of a vertex, head first."""

    id: str
    name: str
    has_coordinator: bool = False
    uid: str | None = None


@dataclass(frozen=True)
class VertexPlan:
    """One task, `parallelism` times."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str = "default"
    co_location_group: str | None = None  # subtasks of the same index of all its vertices share a slot
    is_in_program: bool = False  # its functions hold objects of the program itself: it runs in that process, in no slot
    operators: tuple[OperatorPlan, ...] = ()
    is_slot_fixed: bool = False  # it reads or feeds what belongs to its slot: subtask i of the vertex takes slot i
    is_committer: bool = False  # in batch: it begins behind all who write for it, and not again once all of it is done


@dataclass(frozen=True)
class JobPlan:
    """All vertices, sources first, and the edges between them."""

    job_id: str
    job_name: str
    vertices: tuple[VertexPlan, ...]
    edges: tuple[EdgePlan, ...] = ()
    is_batch: bool = False  # its regions run one after the other
    slot_limit: int | None = None  # so many slots at most

    def subpartition_count(self, edge: EdgePlan, producer: int) -> int:
        """Return how many subpartitions the partition of one subtask of the edge's source has."""
        source, target = self.vertices[edge.source], self.vertices[edge.target]
        return subpartition_count(producer, source.parallelism, target.parallelism, edge.is_pointwise)

    def channels_of(self, edge: EdgePlan, consumer: int) -> list[tuple[int, int]]:
        """Return (producer's subtask, index of its subpartition) for each channel of one subtask's gate."""
        source, target = self.vertices[edge.source], self.vertices[edge.target]
        return channels_of(consumer, source.parallelism, target.parallelism, edge.is_pointwise)


def plan_of(graph: JobGraph, job_id: str) -> JobPlan:
    """Return what a job master needs to know of a job graph."""
    indexes = {id(vertex): index for index, vertex in enumerate(graph.vertices)}
    edges = [
        EdgePlan(
            source=indexes[id(edge.source.producer)],
            target=indexes[id(edge.target)],
            partition_index=edge.source.partition_index,
            gate_index=edge.gate_index,
            is_pointwise=edge.is_pointwise,
            ship_strategy=edge.ship_strategy,
            partition_type=PIPELINED_BOUNDED if edge.is_pipelined else BLOCKING,
        )
        for edge in graph.edges
    ]
    return JobPlan(
        job_id,
        graph.settings.job_name,
        tuple(_vertex_plan(each, graph.settings.is_batch) for each in graph.vertices),
        tuple(edges),
        graph.settings.is_batch,
        graph.settings.slot_limit,
    )


def _vertex_plan(vertex: JobVertex, is_batch: bool) -> VertexPlan:
    operators = vertex.chain.operators
    return VertexPlan(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        slot_sharing_group=vertex.slot_sharing_group,
        co_location_group=vertex.co_location_group,
        is_in_program=vertex.is_in_program,
        operators=tuple(
            OperatorPlan(each.operator_id, each.name, hasattr(each.factory, "create_coordinator"), each.uid)
            for each in operators
        ),
        is_slot_fixed=any(_is_of_slot(each.factory) for each in operators),
        is_committer=is_batch and vertex.is_committer,
    )


def _is_of_slot(factory: object) -> bool:
    """Return whether the vertex's operator reads what Spark gives a slot, or gives Spark what a slot has."""
    return any(getattr(factory, name, False) for name in ("reads_spark", "feeds_spark"))
