"""Where tasks get what they write and read, by descriptor: within one process, or over the network.

Flink: ShuffleEnvironment, ShuffleIOOwnerContext, NettyShuffleEnvironment.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import PartitionNotFoundError
from flinkbuf.network.environment import LocalChannel, NetworkEnvironment, RemoteChannel, gate_buffers
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.io_manager import IOManager
from flinkbuf.network.partition import ResultPartition, buffer_limits
from flinkbuf.runtime.graph.edge_wiring import BLOCKING
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.protocol.deployment import AttemptId, ChannelDescriptor, GateDescriptor, PartitionDescriptor

if TYPE_CHECKING:  # a task manager starts faster without the graphs of programs
    from flinkbuf.runtime.graph.job_plan import JobPlan


SEGMENT_SIZE = 32 * 1024
BUFFERS_PER_CHANNEL, FLOATING_BUFFERS = 2, 8
SORT_BUFFERS, LEAST_SORT_BUFFERS = 512, 64  # of a blocking partition: it can do with two, but not fast
POOL_LIMIT = 8192  # segments (256 MiB) that a job has for comfort; a job that cannot run with so many has what it needs
RELEASED = "it was released: no task needs it any more"


class Shuffle(Protocol):
    """Makes partitions and gates for a task manager. Any thread calls it.

    Attributes
    ----------
    host, data_port
        Where other processes find what tasks write here; port 0: they cannot.
    io_manager : IOManager or None
        Where blocking partitions and sorted input are kept: its directories go when the shuffle is closed. None: there
        are no such.
    """

    host: str
    data_port: int
    io_manager: IOManager | None

    def create_partition(self, owner: AttemptId, descriptor: PartitionDescriptor) -> ResultPartition:
        """Make the partition that a task writes; its readers can find it from now on."""
        ...

    def create_gate(self, owner: AttemptId, descriptor: GateDescriptor) -> InputGate:
        """Make the gate that a task reads through."""
        ...

    def release_gates(self, owner: AttemptId) -> None:
        """Close the gates of an attempt; its partitions stay for their readers."""
        ...

    def release(self, owner: AttemptId) -> None:
        """Free gates and partitions of an attempt; no task reads the partitions any more."""
        ...

    def release_partitions(self, partition_ids: Iterable[str]) -> None:
        """Delete finished partitions that no task needs any more; an unknown one is no error."""
        ...

    def partition_in(self, text: str) -> str:
        """Return the id of this process's partition whose files an error names; empty: none."""
        ...

    def figures(self) -> dict[str, int]:
        """Return figures of the whole process, by Flink's names."""
        ...

    def close(self) -> None:
        """Free everything. Idempotent."""
        ...


class LocalShuffle:
    """Partitions and gates of one process, without sockets.

    Parameters
    ----------
    num_segments : int
        Buffers of all partitions together, such as `segments_needed` says. Memory is taken when it is used.
    io_manager : IOManager, optional
        For blocking partitions; this shuffle's from now on.
    """

    host = ""
    data_port = 0

    def __init__(self, num_segments: int, *, io_manager: IOManager | None = None) -> None:
        self.io_manager = io_manager
        self.pool = NetworkBufferPool(num_segments, SEGMENT_SIZE)
        self._lock = threading.Lock()
        self._partitions: dict[str, ResultPartition] = {}
        self._names: defaultdict[AttemptId, list[str]] = defaultdict(list)
        self._gates: defaultdict[AttemptId, list[InputGate]] = defaultdict(list)

    def create_partition(self, owner: AttemptId, descriptor: PartitionDescriptor) -> ResultPartition:
        """Make a partition."""
        make = partial(ResultPartition, self.pool, descriptor.subpartition_count, descriptor.type)
        if descriptor.type == BLOCKING:
            partition = make(io_manager=self.io_manager, compression="LZ4", sort_buffers=SORT_BUFFERS)
        else:
            partition = make(buffers_per_channel=BUFFERS_PER_CHANNEL, floating_buffers=FLOATING_BUFFERS)
        with self._lock:
            self._partitions[descriptor.partition_id] = partition
            self._names[owner].append(descriptor.partition_id)
        return partition

    def create_gate(self, owner: AttemptId, descriptor: GateDescriptor) -> InputGate:
        """Make a gate over partitions that are there.

        Raises
        ------
        PartitionNotFoundError
            A partition is missing: its task has failed, or was not deployed before this one.
        """
        gate = InputGate((self._partition_of(channel), channel.subpartition_index) for channel in descriptor.channels)
        with self._lock:
            self._gates[owner].append(gate)
        return gate

    def _partition_of(self, channel: ChannelDescriptor) -> ResultPartition:
        with self._lock:
            partition = self._partitions.get(channel.partition_id)
        if partition is None:
            raise PartitionNotFoundError(
                f"partition {channel.partition_id} is not in this process: the task that writes it has ended, or was "
                "not started"
            )
        return partition

    def release_gates(self, owner: AttemptId) -> None:
        """Close an attempt's gates."""
        with self._lock:
            gates = self._gates.pop(owner, ())
        for gate in gates:
            gate.close()

    def release(self, owner: AttemptId) -> None:
        """Close an attempt's gates, and drop its partitions."""
        self.release_gates(owner)
        with self._lock:
            names = self._names.pop(owner, ())
            partitions = [self._partitions.pop(name) for name in names if name in self._partitions]
        for partition in partitions:
            _drop(partition)

    def release_partitions(self, partition_ids: Iterable[str]) -> None:
        """Drop partitions, of any attempt."""
        for name in partition_ids:
            with self._lock:
                partition = self._partitions.pop(name, None)
            if partition is not None:
                _drop(partition)

    def partition_in(self, text: str) -> str:
        """Return the id of the partition whose files an error speaks of."""
        with self._lock:
            return _named_in(text, {name: getattr(each, "path", None) for name, each in self._partitions.items()})

    def figures(self) -> dict[str, int]:
        """Return how many buffers there are and in use, and bytes of all."""
        return _figures_of(self.pool)

    def close(self) -> None:
        """Release the gates and partitions of all attempts."""
        with self._lock:
            owners = [*self._gates, *self._names]
        for owner in owners:
            self.release(owner)
        if self.io_manager is not None:
            self.io_manager.close()


class NetworkShuffle:
    """Partitions and gates of a process that others read from, and that reads from others.

    Parameters
    ----------
    environment : NetworkEnvironment
        This shuffle's from now on: `close` closes it.
    io_manager : IOManager, optional
        The environment's; this shuffle's from now on.
    """

    def __init__(self, environment: NetworkEnvironment, *, io_manager: IOManager | None = None) -> None:
        self.environment = environment
        self.io_manager = io_manager
        self.host, self.data_port = environment.address
        self._lock = threading.Lock()
        self._paths: dict[str, str | None] = {}  # of blocking partitions, by id

    def create_partition(self, owner: AttemptId, descriptor: PartitionDescriptor) -> ResultPartition:
        """Make a partition that others can ask for."""
        partition = self.environment.create_partition(
            descriptor.partition_id, descriptor.subpartition_count, descriptor.type, owner=owner
        )
        if descriptor.type == BLOCKING:
            with self._lock:
                self._paths[descriptor.partition_id] = getattr(partition, "path", None)
        return partition

    def create_gate(self, owner: AttemptId, descriptor: GateDescriptor) -> InputGate:
        """Make a gate; a partition that is not there yet is waited for when it is asked for."""
        return self.environment.create_gate([self._channel(each) for each in descriptor.channels], owner=owner)

    def _channel(self, descriptor: ChannelDescriptor) -> RemoteChannel | LocalChannel:
        if (descriptor.host, descriptor.port) == (self.host, self.data_port):
            return LocalChannel(descriptor.partition_id, descriptor.subpartition_index)
        return RemoteChannel(descriptor.host, descriptor.port, descriptor.partition_id, descriptor.subpartition_index)

    def release_gates(self, owner: AttemptId) -> None:
        """Close an attempt's gates."""
        self.environment.release_gates(owner)

    def release(self, owner: AttemptId) -> None:
        """Close an attempt's gates, and drop its partitions."""
        self.environment.release_owner(owner)

    def release_partitions(self, partition_ids: Iterable[str]) -> None:
        """Drop partitions, of any attempt."""
        for partition_id in partition_ids:
            self.environment.release_partition(partition_id)
            with self._lock:
                self._paths.pop(partition_id, None)

    def partition_in(self, text: str) -> str:
        """Return the id of the partition whose files an error speaks of."""
        with self._lock:
            return _named_in(text, self._paths)

    def figures(self) -> dict[str, int]:
        """Return how many buffers there are and in use, and bytes of all."""
        return _figures_of(self.environment.pool)

    def close(self) -> None:
        """Close the environment."""
        try:
            self.environment.close()
        finally:
            if self.io_manager is not None:
                self.io_manager.close()


def _figures_of(pool: NetworkBufferPool) -> dict[str, int]:
    total, available = pool.total_segment_count, pool.available_segment_count
    used = total - available
    return {"totalMemorySegments": total, "usedMemorySegments": used, "totalMemory": total * pool.segment_size}


def _named_in(text: str, paths: Mapping[str, str | None]) -> str:
    return next((partition_id for partition_id, path in paths.items() if path and path in text), "")


def _drop(partition: ResultPartition) -> None:
    partition.release()
    partition.abort(RELEASED, timeout_ms=0)


def io_manager_for(bundle: JobBundle) -> IOManager | None:
    """Make what a task manager of a job keeps files with; None for a job that writes none.

    What a killed process of this machine has left there goes.
    """
    if not bundle.settings.is_batch:
        return None
    return IOManager(bundle.temporary_directories or None)


def network_shuffle(
    bundle: JobBundle,
    config: NetworkConfig,
    *,
    host: str,
    num_segments: int | None,
    advertised_host: str | None = None,
) -> NetworkShuffle:
    """Make the shuffle of a task manager that others read from.

    Parameters
    ----------
    bundle : JobBundle
        Of the job.
    config : NetworkConfig
    host, num_segments, advertised_host
        As `NetworkEnvironment` takes them.
    """
    io_manager = io_manager_for(bundle)
    try:
        environment = NetworkEnvironment(
            config, host=host, num_segments=num_segments, advertised_host=advertised_host, io_manager=io_manager
        )
    except BaseException:
        if io_manager is not None:
            io_manager.close()
        raise
    return NetworkShuffle(environment, io_manager=io_manager)


def segments_needed(plan: JobPlan) -> int:
    """Return how many segments a job's partitions share in one process: what each would like, up to a limit."""
    least = wanted = 0
    for edge in plan.edges:
        for producer in range(plan.vertices[edge.source].parallelism):
            if not edge.is_pipelined:
                least, wanted = least + LEAST_SORT_BUFFERS, wanted + SORT_BUFFERS
                continue
            minimum, maximum = buffer_limits(
                edge.partition_type, plan.subpartition_count(edge, producer), BUFFERS_PER_CHANNEL, FLOATING_BUFFERS
            )
            least, wanted = least + minimum, wanted + (maximum or minimum)
    # A little more than they can ask for: a pool that is asked for all it has warns of it.
    return max(least, min(wanted, POOL_LIMIT)) * 51 // 50 + 1


def slot_segments_needed(plan: JobPlan, config: NetworkConfig, *, in_program: bool = False) -> int:
    """Return how many segments the tasks of one slot need at most, whichever subtasks they are.

    Parameters
    ----------
    plan : JobPlan
    config : NetworkConfig
        ``network.memory.min`` and ``.max`` bound the answer.
    in_program : bool, default False
        For all vertices that run in the program, with all their subtasks, instead.
    """
    groups: defaultdict[str, int] = defaultdict(int)
    for index, vertex in enumerate(plan.vertices):
        if vertex.is_in_program is not in_program:
            continue
        factor = vertex.parallelism if in_program else 1
        groups["program" if in_program else vertex.slot_sharing_group] += factor * _task_segments(plan, index, config)
    wanted = max(groups.values(), default=0) * 51 // 50 + 1
    least = config.network_memory_min // config.segment_size
    most = config.network_memory_max
    return max(16, least, wanted if most is None else min(wanted, most // config.segment_size))


def _task_segments(plan: JobPlan, index: int, config: NetworkConfig) -> int:
    """Return the segments of the vertex's subtask that needs the most."""
    count = 0
    for edge in plan.edges:
        if edge.source == index and not edge.is_pipelined:
            count += max(LEAST_SORT_BUFFERS, config.sort_shuffle_min_buffers)
        elif edge.source == index:
            width = max(plan.subpartition_count(edge, producer) for producer in range(plan.vertices[index].parallelism))
            minimum, maximum = buffer_limits(
                edge.partition_type, width, config.buffers_per_channel, config.floating_buffers_per_gate
            )
            count += (maximum or minimum) + config.max_overdraft_buffers_per_gate
        if edge.target == index:
            source = plan.vertices[edge.source].parallelism
            width = -(-source // plan.vertices[index].parallelism) if edge.is_pointwise else source
            buffers = gate_buffers(max(1, width), config)
            count += buffers.exclusive * width + buffers.max_floating
    return count
