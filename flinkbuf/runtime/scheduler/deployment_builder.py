"""What each task manager is told when subtasks are deployed. Flink: TaskDeploymentDescriptorFactory."""

from __future__ import annotations

from hashlib import blake2b

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan
from flinkbuf.runtime.protocol.deployment import (
    GateDescriptor,
    PartitionDescriptor,
    PartitionLocation,
    TaskDeploymentDescriptor,
)
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph


class DeploymentBuilder:
    """Makes the descriptors of a job's tasks.

    Parameters
    ----------
    graph : ExecutionGraph
    session_id : str
        32 hex digits: a part of each partition's id, so that jobs never read each other's.
    epoch : int
        Of the job master.
    """

    def __init__(self, graph: ExecutionGraph, session_id: str, epoch: int = 1) -> None:
        self.graph = graph
        self.plan: JobPlan = graph.plan
        self.session_id = session_id
        self.epoch = epoch
        count = len(self.plan.vertices)
        self._outputs: list[list[EdgePlan]] = [[] for _ in range(count)]
        self._inputs: list[list[EdgePlan]] = [[] for _ in range(count)]
        for edge in self.plan.edges:
            self._outputs[edge.source].append(edge)
            self._inputs[edge.target].append(edge)
        for edges in self._outputs:
            edges.sort(key=lambda edge: edge.partition_index)
        for edges in self._inputs:
            edges.sort(key=lambda edge: edge.gate_index)

    def partition_id(self, execution: Execution, partition_index: int) -> str:
        """Return the id of an attempt's partition, as Flink puts it together: data set, number, producer's attempt."""
        attempt = execution.attempt
        data_set = blake2b(f"{attempt.vertex_id}:{partition_index}".encode(), digest_size=16).hexdigest()
        subtask = f"{attempt.subtask_index:08x}"
        return f"{data_set}{subtask}{self.session_id}{attempt.vertex_id}{subtask}{attempt.attempt_number:08x}"

    def partition_ids(self, execution: Execution) -> dict[int, str]:
        """Return the ids of all that an attempt writes, by partition index."""
        outputs = self._outputs[execution.vertex.job_vertex.index]
        return {edge.partition_index: self.partition_id(execution, edge.partition_index) for edge in outputs}

    def build(self, executions: list[Execution]) -> list[tuple[str, TaskDeploymentDescriptor]]:
        """Return (task manager, descriptor) of attempts whose `manager` is set, as are those of their producers."""
        producers: dict[int, _Producers] = {}  # by id of the edge: what all its readers share
        return [self._descriptor(execution, producers) for execution in executions]

    def _descriptor(
        self, execution: Execution, producers: dict[int, _Producers]
    ) -> tuple[str, TaskDeploymentDescriptor]:
        vertex = execution.vertex
        plan, index, number = vertex.plan, vertex.job_vertex.index, vertex.index
        manager = execution.manager
        assert manager is not None, f"{execution!r} has no task manager"
        restore, execution.restore = execution.restore, None  # it is asked for only once, and may be large
        return manager.id, TaskDeploymentDescriptor(
            attempt=execution.attempt,
            task_name=plan.name,
            parallelism=plan.parallelism,
            max_parallelism=plan.max_parallelism,
            slot_index=0 if vertex.slot is None else vertex.slot - manager.slots.start,
            partitions=tuple(
                PartitionDescriptor(
                    self.partition_id(execution, edge.partition_index),
                    self.plan.subpartition_count(edge, number),
                    edge.partition_type,
                )
                for edge in self._outputs[index]
            ),
            gates=tuple(self._gate(edge, number, producers) for edge in self._inputs[index]),
            restore=restore,
            epoch=self.epoch,
        )

    def _gate(self, edge: EdgePlan, consumer: int, producers: dict[int, _Producers]) -> GateDescriptor:
        known = producers.get(id(edge))
        if known is None:
            subtasks = self.graph.vertices[edge.source].subtasks
            known = producers[id(edge)] = tuple(self._location(subtask.current, edge) for subtask in subtasks)
        if not edge.is_pointwise:  # each consumer reads a subpartition of its own of each producer
            return GateDescriptor(known, (consumer,) * len(known))
        channels = self.plan.channels_of(edge, consumer)
        return GateDescriptor(tuple(known[each] for each, _ in channels), tuple(index for _, index in channels))

    def _location(self, execution: Execution, edge: EdgePlan) -> PartitionLocation:
        manager = execution.manager
        if manager is None:  # of a region that is not deployed yet: no task deployed now reads from it
            return PartitionLocation("", "", "", 0)
        partition_id = self.partition_id(execution, edge.partition_index)
        return PartitionLocation(partition_id, manager.id, manager.host, manager.data_port)


_Producers = tuple[PartitionLocation, ...]  # by subtask
