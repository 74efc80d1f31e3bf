"""Makes the surroundings of an operator out of what a task, or a test, has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.metrics import MetricGroup
from flinkbuf.streaming.chain.accumulators import AccumulatorRegistry
from flinkbuf.streaming.chain.batch import BatchKeyedStateBackend, BatchTimerServices
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, OperatorConfig, TaskInfo
from flinkbuf.streaming.chain.operator_context import (
    MailboxExecutor,
    ManagedMemory,
    OperatorContext,
    OperatorEventGateway,
)
from flinkbuf.streaming.chain.runtime_context import RuntimeContext
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.rocksdb_backend import RocksDbStateBackend
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.processing_time import ProcessingTimeService


def make_context(
    task: TaskInfo,
    config: OperatorConfig,
    *,
    settings: ExecutionSettings,
    clock: Clock,
    processing_time: ProcessingTimeService,
    mailbox: MailboxExecutor,
    metrics: MetricGroup | None = None,
    accumulators: AccumulatorRegistry | None = None,
    wake: Callable[[], None] = lambda: None,
    coordinator: OperatorEventGateway | None = None,
    memory: ManagedMemory | None = None,
    target_io: object | None = None,
    owns_records: bool = False,
) -> OperatorContext:
    """Return the surroundings of one operator, its state still empty.

    Parameters
    ----------
    task : TaskInfo
        The subtask.
    config : OperatorConfig
        Says who the operator is and whether it is keyed.
    settings : ExecutionSettings
        Of the job.
    clock, processing_time, mailbox
        Of the task; the mailbox with the priority of the operator.
    metrics : MetricGroup, optional
        Of the operator.
    accumulators : AccumulatorRegistry, optional
        Of the task.
    wake, coordinator, memory, target_io : optional
        See `OperatorContext`.
    owns_records : bool
        Whether only this operator holds the records that come to it.

    References
    ----------
    Flink ``StreamTaskStateInitializerImpl``.
    """
    metrics = metrics if metrics is not None else MetricGroup()
    accumulators = accumulators if accumulators is not None else AccumulatorRegistry()
    operator_state = OperatorStateBackend()
    key_context, keyed_state, timers = None, None, None
    if config.is_keyed:
        key_groups = KeyGroups.of_subtask(
            config.key_type, task.max_parallelism, parallelism=task.parallelism, subtask_index=task.subtask_index
        )
        key_context = KeyContext(None if config.key_type is None else config.key_type.codec, key_groups.grouper())
        timers = (BatchTimerServices if settings.is_batch else TimerServices)(key_context, processing_time)
        keyed_state = _keyed_state(settings)(key_context, key_groups, clock, timers)
    return OperatorContext(
        task=task,
        operator_id=config.operator_id,
        operator_name=config.name,
        settings=settings,
        clock=clock,
        processing_time=processing_time,
        mailbox=mailbox,
        key_context=key_context,
        keyed_state=keyed_state,
        operator_state=operator_state,
        timers=timers,
        metrics=metrics,
        runtime_context=RuntimeContext(task, settings, metrics, keyed_state, operator_state, accumulators),
        wake=wake,
        coordinator=coordinator,
        memory=memory,
        target_io=target_io,
        owns_records=owns_records,
    )


def _keyed_state(settings: ExecutionSettings) -> Callable[..., KeyedStateBackend]:
    """Return what makes the state backend of the job."""
    if settings.is_batch:
        return BatchKeyedStateBackend
    if settings.state_backend == "hashmap":
        return KeyedStateBackend
    if settings.state_backend != "rocksdb":
        raise ValueError(f"there is no state backend {settings.state_backend!r}: choose hashmap or rocksdb")
    return partial(RocksDbStateBackend, options=settings.state_backend_options)
