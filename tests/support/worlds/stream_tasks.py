"""What tests of stream tasks share: sources and sinks of lists, and a way to run a few tasks."""

import threading

import flinkbuf as fb
from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf._core.operators.source_operator import SourceOperatorBase
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, StreamOperator
from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.streaming.chain.operator_config import (
    ChainConfig,
    ChainedEdge,
    ExecutionSettings,
    InputConfig,
    NetworkEdge,
    OperatorConfig,
    TaskInfo,
)
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.task import Task
from flinkbuf.testing import ManualClock

SETTINGS = ExecutionSettings()


class PlainContext(OperatorContext):
    """Surroundings without state; `initial` is what an operator was restored from, `saved` what it leaves."""

    initial = saved = None

    def initialize_state(self, snapshot):
        self.initial = snapshot

    def snapshot_state(self, checkpoint_id):
        return self.saved

    def note_latency(self, marker):
        self.markers = [*getattr(self, "markers", ()), marker]


def plain_context(*, task, config, settings, clock, processing_time, mailbox, wake, accumulators, owns_records=False):
    return PlainContext(
        task=task,
        operator_id=config.operator_id,
        operator_name=config.name,
        settings=settings,
        clock=clock,
        processing_time=processing_time,
        mailbox=mailbox,
        wake=wake,
    )


class ListSource(SourceOperatorBase):
    """Emits (value, timestamp) pairs, or bare values, and ends; its position is its state."""

    def __init__(self, items, end=InputStatus.END_OF_DATA):
        self.items, self.end, self.position = list(items), end, 0

    def initialize_state(self, snapshot):
        self.position = snapshot or 0

    def snapshot_state(self, checkpoint_id):
        return self.position

    def emit_next(self, output, max_records):
        for _ in range(max_records):
            if self.position == len(self.items):
                return self.end
            item = self.items[self.position]
            self.position += 1
            if isinstance(item, fb.types.Watermark):
                output.emit_watermark(item.timestamp)
            elif isinstance(item, fb.types.StreamRecord):
                output.collect(item.value, NO_TIMESTAMP if item.timestamp is None else item.timestamp)
            else:
                output.collect(item, NO_TIMESTAMP)
            if output.must_yield():
                break
        return InputStatus.MORE_AVAILABLE


class ListSink(StreamOperator):
    """Keeps what comes: values, with a timestamp as StreamRecord; watermarks; statuses; markers."""

    def __init__(self, items):
        self.items = items

    def process_element(self, value, timestamp):
        self.items.append(value if timestamp == NO_TIMESTAMP else fb.types.StreamRecord(value, timestamp))

    def process_watermark(self, timestamp):
        self.items.append(fb.types.Watermark(timestamp))

    def process_watermark_status(self, is_idle):
        self.items.append("idle" if is_idle else "active")

    def process_latency_marker(self, marker):
        self.items.append(marker)


END = fb.types.Watermark(2**63 - 1)


def operator(name, factory, **options):
    digits = name.encode().hex()[:32].ljust(32, "0")
    return OperatorConfig(digits, name, factory, **options)


def source(items, name="source", **options):
    return operator(name, lambda: ListSource(items), is_source=True, **options)


def chain_of(*operators, inputs=(), partition_count=0):
    """Operators one behind the other."""
    linked = [
        config
        if config.chained_edges or config.network_edges or index + 1 == len(operators)
        else OperatorConfig(**{**vars(config), "chained_edges": (ChainedEdge(index + 1),)})
        for index, config in enumerate(operators)
    ]
    return ChainConfig(tuple(linked), inputs, partition_count)


def info(name="task", **options):
    return TaskInfo("job", "a job", "vertex", name, **options)


class KeptSnapshots:
    """A writer of snapshots that keeps the objects themselves; what it returns begins another task."""

    def __init__(self):
        self.snapshots = {}  # by checkpoint
        self.options = {}

    def write(self, snapshot, *, storage, options, settings, is_cancelled):
        self.snapshots[snapshot.checkpoint_id] = snapshot
        self.options[snapshot.checkpoint_id] = options
        return SubtaskState(is_finished=snapshot.is_finished)


def make_task(config, gates=(), partitions=(), clock=None, name="task", settings=SETTINGS, snapshots=None, **options):
    options = {"make_context": plain_context, "write_snapshot": (snapshots or KeptSnapshots()).write, **options}
    return Task(info(name), config, gates, partitions, settings, clock or ManualClock(), **options)


def run_all(*tasks, timeout_s=20):
    """Each on a thread of its own; raises if one does not come to its end."""
    threads = [threading.Thread(target=task.run, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread, task in zip(threads, tasks, strict=True):
        thread.join(timeout_s)
        assert not thread.is_alive(), f"{task.info.task_name} is still {task.state}"


def edge(partition_index=0, type=None, partitioner="forward", **options):
    return NetworkEdge(partition_index, type or fb.Types.LONG(), partitioner, **options)


__all__ = [name for name in dir() if not name.startswith("_")]
MapOperator, InputConfig  # for those who import from here
