"""Which operators may share a slot, and what such a slot needs. Flink: SlotSharingGroup, MemorySize."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering

_UNITS = ((2**40, "tb"), (2**30, "gb"), (2**20, "mb"), (2**10, "kb"))


@total_ordering
class MemorySize:
    """A number of bytes. Flink's ``MemorySize``.

    Examples
    --------
    >>> size = MemorySize.of_mebi_bytes(3)
    >>> size.get_bytes(), size.get_kibi_bytes(), str(size)
    (3145728, 3072, '3 mb')
    """

    def __init__(self, bytes_size: int) -> None:
        if bytes_size < 0:
            raise ValueError(f"bytes must be >= 0, got {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """So many times 2**20 bytes.

        Examples
        --------
        >>> MemorySize.of_mebi_bytes(1024) == MemorySize(2**30), str(MemorySize.of_mebi_bytes(1024))
        (True, '1 gb')
        """
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Return the bytes.

        Examples
        --------
        >>> size = MemorySize(5 * 2**40 + 1)
        >>> size.get_bytes()
        5497558138881
        >>> size.get_tebi_bytes(), size.get_gibi_bytes(), size.get_mebi_bytes(), size.get_kibi_bytes()  # rounded down
        (5, 5120, 5242880, 5368709120)
        """
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return how many times 2**10 bytes fit in."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """Return how many times 2**20 bytes fit in."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """Return how many times 2**30 bytes fit in."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """Return how many times 2**40 bytes fit in."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise TypeError(f"Does not support comparison with non-MemorySize {other}")
        return self._bytes < other._bytes

    def __str__(self) -> str:
        for size, unit in _UNITS:
            if self._bytes and self._bytes % size == 0:
                return f"{self._bytes // size} {unit}"
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        return f"MemorySize({self._bytes})"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name, and what a slot of its operators needs; made by a `Builder`. Flink's ``SlotSharingGroup``.

    Examples
    --------
    >>> group = SlotSharingGroup.builder("models").set_cpu_cores(1.5).set_task_heap_memory_mb(100).build()
    >>> group.get_name(), group.get_cpu_cores(), group.get_managed_memory() is None
    ('models', 1.5, True)
    """

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: tuple[tuple[str, float], ...] = field(default=())

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory; None: not said."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the memory for objects; None: not said."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory beside objects; None: not said."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return the cores; None: not said."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return what else it needs, such as GPUs."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> builder = SlotSharingGroup.builder("models").set_cpu_cores(1.5).set_task_heap_memory_mb(100)
        >>> builder = builder.set_task_off_heap_memory_mb(50).set_managed_memory_mb(20).set_external_resource("gpu", 1)
        >>> group = builder.build()
        >>> group.get_name(), group.get_cpu_cores(), group.get_external_resources()
        ('models', 1.5, {'gpu': 1.0})
        >>> str(group.get_task_heap_memory()), str(group.get_task_off_heap_memory()), str(group.get_managed_memory())
        ('100 mb', '50 mb', '20 mb')
        >>> answers = env.from_collection([-1, 2]).map(abs).slot_sharing_group(group)
        """
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Gathers what a slot needs.

        Examples
        --------
        >>> SlotSharingGroup.Builder("models").set_cpu_cores(2).build()
        Traceback (most recent call last):
            ...
        ValueError: The cpu cores and task heap memory are required when specifying the resource of a slot.
        >>> group = SlotSharingGroup.Builder("models").set_cpu_cores(2).set_task_heap_memory_mb(64).build()
        >>> group.get_task_heap_memory()
        MemorySize(67108864)
        """

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores."""
            if cpu_cores <= 0:
                raise ValueError(f"The cpu cores should be positive, got {cpu_cores}")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory for objects."""
            if task_heap_memory.get_bytes() <= 0:
                raise ValueError(f"The task heap memory should be positive, got {task_heap_memory}")
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory for objects, in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory beside objects."""
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory beside objects, in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the managed memory."""
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the managed memory, in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set what else a slot needs, such as ``("gpu", 1.0)``."""
            self._external_resources[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Make the group."""
            if (self._cpu_cores is None) != (self._task_heap_memory is None):
                raise ValueError(
                    "The cpu cores and task heap memory are required when specifying the resource of a slot."
                )
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                self._task_heap_memory,
                self._task_off_heap_memory,
                self._managed_memory,
                tuple(sorted(self._external_resources.items())),
            )
