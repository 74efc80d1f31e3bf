"""Which partitions and gates of a process belong to which task, so that the end of one touches no other.

Flink: ShuffleIOOwnerContext, the tables of NettyShuffleEnvironment.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from weakref import WeakSet

from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition, ResultPartitionID


class Owners:
    """The partitions, and weakly the gates, that were made for somebody. Threads: any.

    Examples
    --------
    >>> owners = Owners()
    >>> owners.add_partition("task 1", b"its name", None)
    >>> owners.has(b"its name"), owners.take_partitions("task 1"), owners.has(b"its name")
    (True, [(b'its name', None)], False)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[Hashable, dict[ResultPartitionID, ResultPartition]] = {}
        self._owner_of: dict[ResultPartitionID, Hashable] = {}
        self._gates: dict[Hashable, WeakSet[InputGate]] = {}

    def add_partition(self, owner: Hashable, name: ResultPartitionID, partition: ResultPartition) -> None:
        """A partition is `owner`'s."""
        with self._lock:
            self._partitions.setdefault(owner, {})[name] = partition
            self._owner_of[name] = owner

    def add_gate(self, owner: Hashable, gate: InputGate) -> None:
        """A gate is `owner`'s."""
        with self._lock:
            self._gates.setdefault(owner, WeakSet()).add(gate)

    def has(self, name: ResultPartitionID) -> bool:
        """Whether a partition is somebody's."""
        return name in self._owner_of

    def forget_partition(self, name: ResultPartitionID) -> None:
        """It was read to its end, and its owner has closed it."""
        with self._lock:
            owner = self._owner_of.pop(name, None)
            mine = self._partitions.get(owner)
            if mine is not None:
                mine.pop(name, None)
                if not mine:
                    del self._partitions[owner]

    def take_partitions(self, owner: Hashable) -> list[tuple[ResultPartitionID, ResultPartition]]:
        """Forget and return an owner's partitions, by name."""
        with self._lock:
            partitions = list(self._partitions.pop(owner, {}).items())
            for name, _ in partitions:
                del self._owner_of[name]
            return partitions

    def take_gates(self, owner: Hashable) -> list[InputGate]:
        """Forget and return those of an owner's gates that are still in use."""
        with self._lock:
            return list(self._gates.pop(owner, ()))

    def __iter__(self) -> Iterator[Hashable]:
        with self._lock:
            return iter([*{**self._partitions, **self._gates}])
