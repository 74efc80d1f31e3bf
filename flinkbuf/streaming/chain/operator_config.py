"""What a task is told to run: its chain of operators, what it reads and what it writes.

Flink: StreamConfig, TaskInformation. Frozen and picklable; made from a job graph, or by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flinkbuf._core.operators.stream_operator import StreamOperator
    from flinkbuf.types.type_information import TypeInformation


class HasLifecycle(Protocol):
    """What a task opens before it is called, and closes after its last call."""

    def open(self, runtime_context: object) -> None:
        """Get ready."""
        ...

    def close(self) -> None:
        """Free what was opened."""
        ...


@dataclass(frozen=True)
class ChainedEdge:
    """From one operator of a chain to another behind it."""

    target: int  # index in the chain
    input_number: int = 1
    output_tag: str | None = None  # None: the main output


@dataclass(frozen=True)
class NetworkEdge:
    """From an operator of a chain to a result partition of its task."""

    partition_index: int  # among the task's partitions
    type: TypeInformation  # of a value; None is never given: undeclared types have one of their own
    partitioner: object  # what flinkbuf.RecordWriter takes: a name, by_key(...), or a callable
    output_tag: str | None = None
    buffer_timeout_ms: int = 100  # 0: each record at once; -1: only full buffers
    functions: tuple[HasLifecycle, ...] = ()  # of the partitioner: the task opens and closes them


@dataclass(frozen=True)
class OperatorConfig:
    """One operator of a chain."""

    operator_id: str  # 32 hex digits, the same in every run of the same program
    name: str
    factory: Callable[[], StreamOperator]  # a fresh operator with its own copy of the user's function
    uid: str | None = None
    is_source: bool = False
    is_keyed: bool = False
    key_type: TypeInformation | None = None  # None: not declared
    chained_edges: tuple[ChainedEdge, ...] = ()
    network_edges: tuple[NetworkEdge, ...] = ()


@dataclass(frozen=True)
class SortKey:
    """By what an input is sorted in batch execution."""

    selector: Callable[[object], object] | None = None  # None: all records have one key
    type: TypeInformation | None = None  # of the keys; None: not declared


@dataclass(frozen=True)
class InputConfig:
    """One logical input of the head operator, read from one or several gates (a union)."""

    type: TypeInformation
    gate_indexes: tuple[int, ...]  # among the task's gates
    sort_key: SortKey | None = None  # None: records are processed as they come


@dataclass(frozen=True)
class ChainConfig:
    """All operators of a task, head first; an operator stands before those it is chained to."""

    operators: tuple[OperatorConfig, ...]
    inputs: tuple[InputConfig, ...] = ()  # empty: the head is a source
    partition_count: int = 0


@dataclass(frozen=True)
class ExecutionSettings:
    """What holds for all tasks of a job. Flink: ExecutionConfig and CheckpointConfig, as far as a task asks."""

    is_batch: bool = False  # all input has an end, and results are given once, at that. Flink: JobType.BATCH
    sorted_inputs_memory: int = 128 * 1024**2  # bytes in which a task of a batch job sorts its keyed input
    object_reuse: bool = False  # a record that goes several ways in one task is one object on all of them
    auto_watermark_interval_ms: int = 200
    latency_tracking_interval_ms: int = 0  # 0: no latency markers
    latency_granularity: str = "operator"  # which markers share a histogram
    latency_history_size: int = 128
    task_cancellation_interval_ms: int = 30_000  # how often a function that does not return is interrupted; 0: never
    task_cancellation_timeout_ms: int = 180_000  # after which a process of tasks ends itself instead; 0: never
    checkpointing_enabled: bool = False
    checkpoints_after_tasks_finish: bool = True
    is_exactly_once: bool = True  # else a task never waits for barriers, and records may count twice after a failure
    unaligned_checkpoints_enabled: bool = False
    max_concurrent_checkpoints: int = 1
    checkpoint_directory: str = ""  # above those of jobs; empty: none, the job master keeps the state
    checkpoint_memory_threshold: int = 20_480  # bytes; smaller state goes to the job master itself
    checkpoint_compression: bool = False
    state_backend: str = "hashmap"  # or "rocksdb"
    state_backend_options: Mapping[str, object] = field(default_factory=dict)
    job_parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them
    cached_files: Mapping[str, str] = field(default_factory=dict)  # where each lies on the machine of the task


@dataclass(frozen=True)
class TaskInfo:
    """Which subtask of which vertex of which job."""

    job_id: str
    job_name: str
    vertex_id: str
    task_name: str  # "Source: numbers -> Map"
    subtask_index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt_number: int = 0
    epoch: int = 1  # counts the programs that took the job over from each other

    @property
    def task_name_with_subtask(self) -> str:
        """Return the name as Flink shows it: name (1/4)#0."""
        return f"{self.task_name} ({self.subtask_index + 1}/{self.parallelism})#{self.attempt_number}"
