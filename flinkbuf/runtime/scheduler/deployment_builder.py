"""What each task manager is told when subtasks are deployed. Flink: TaskDeploymentDescriptorFactory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan
from flinkbuf.runtime.protocol.deployment import GateDescriptor, PartitionDescriptor, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import DeployTasks
from flinkbuf.runtime.protocol.places import PartitionLocation, PartitionTable, Places, partition_id
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph
from flinkbuf.runtime.scheduler.manager import Manager


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
        return partition_id(
            self.session_id, attempt.vertex_id, attempt.subtask_index, attempt.attempt_number, partition_index
        )

    def partition_ids(self, execution: Execution) -> dict[int, str]:
        """Return the ids of all that an attempt writes, by partition index."""
        outputs = self._outputs[execution.vertex.job_vertex.index]
        return {edge.partition_index: self.partition_id(execution, edge.partition_index) for edge in outputs}

    def build(self, executions: list[Execution]) -> list[tuple[str, DeployTasks]]:
        """Return a message for each task manager of attempts whose `manager` is set, as are those of their producers.

        The order of attempts is kept on each task manager.
        """
        tables = self._tables({execution.vertex.job_vertex.index for execution in executions})
        by_manager: dict[str, list[TaskDeploymentDescriptor]] = {}
        for execution in executions:
            manager = execution.manager
            assert manager is not None, f"{execution!r} has no task manager"
            by_manager.setdefault(manager.id, []).append(self._descriptor(execution, manager, tables))
        return [
            (manager_id, DeployTasks(self.session_id, tuple(tasks), _needed(tables.places, tasks)))
            for manager_id, tasks in by_manager.items()
        ]

    def _tables(self, vertices: set[int]) -> _Tables:
        """Return the tables of all partitions that every subtask of one of these vertices reads."""
        managers: dict[tuple[str, int], int] = {_NOWHERE: 0}
        numbers: dict[int, int] = {}
        tables: list[PartitionTable] = []
        for index in sorted(vertices):
            for edge in self._inputs[index]:
                if not edge.is_pointwise:
                    numbers[id(edge)] = len(tables)
                    tables.append(self._table(edge, managers))
        return _Tables(numbers, Places(self.session_id, managers, tables))

    def _table(self, edge: EdgePlan, managers: dict[tuple[str, int], int]) -> PartitionTable:
        source = self.graph.vertices[edge.source]
        executions = [subtask.current for subtask in source.subtasks]
        # Of a region that is not deployed yet there is no manager: no task deployed now reads from it.
        addresses = (_NOWHERE if (at := each.manager) is None else (at.host, at.data_port) for each in executions)
        return PartitionTable(
            source.plan.id,
            edge.partition_index,
            tuple(managers.setdefault(each, len(managers)) for each in addresses),
            tuple(each.attempt.attempt_number for each in executions),
        )

    def _descriptor(self, execution: Execution, manager: Manager, tables: _Tables) -> TaskDeploymentDescriptor:
        vertex = execution.vertex
        plan, index, number = vertex.plan, vertex.job_vertex.index, vertex.index
        restore, execution.restore = execution.restore, None  # it is asked for only once, and may be large
        return TaskDeploymentDescriptor(
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
            gates=tuple(self._gate(edge, number, tables) for edge in self._inputs[index]),
            restore=restore,
            epoch=self.epoch,
        )

    def _gate(self, edge: EdgePlan, consumer: int, tables: _Tables) -> GateDescriptor:
        table = tables.numbers.get(id(edge))
        if table is not None:  # each consumer reads a subpartition of its own of each producer
            return GateDescriptor(consumer, table=table, places=tables.places)
        channels = self.plan.channels_of(edge, consumer)
        subtasks = self.graph.vertices[edge.source].subtasks
        (index,) = {index for _, index in channels}
        return GateDescriptor(index, tuple(self._location(subtasks[each].current, edge) for each, _ in channels))

    def _location(self, execution: Execution, edge: EdgePlan) -> PartitionLocation:
        manager = execution.manager
        assert manager is not None, f"a task is deployed before {execution!r}, from which it reads"
        return PartitionLocation(self.partition_id(execution, edge.partition_index), manager.host, manager.data_port)


@dataclass(frozen=True)
class _Tables:
    """Tables of the partitions that several attempts read, made for one deployment."""

    numbers: dict[int, int]  # by id of the edge
    places: Places


def _needed(places: Places, tasks: list[TaskDeploymentDescriptor]) -> bytes:
    """Return the tables for a task manager with these tasks: none if no gate names one."""
    is_needed = any(gate.table is not None for task in tasks for gate in task.gates)
    return places.to_bytes() if is_needed else b""


_NOWHERE: Final = ("", 0)  # address of a partition that nobody writes yet
