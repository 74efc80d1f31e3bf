"""Runs one operator by hand: records, watermarks and time go in, and all it emits is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import cloudpickle

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP, Input, Output, StreamOperator
from flinkbuf.metrics import MetricGroup
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.streaming.chain.batch import BatchKeyedStateBackend
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, OperatorConfig, SortKey, TaskInfo
from flinkbuf.streaming.chain.operator_setup import make_context
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, redistribute
from flinkbuf.testing.batch_records import BatchRecords, sort_keys_of
from flinkbuf.testing.manual_clock import ManualClock
from flinkbuf.testing.manual_mailbox import ManualMailbox
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus


class CollectingOutput(Output):
    """Keeps what it is given: records, watermarks, statuses, markers, in order; side outputs by their tag."""

    def __init__(self) -> None:
        self.elements: list[object] = []
        self.side_elements: dict[str, list[StreamRecord]] = {}

    def collect(self, value: object, timestamp: int) -> None:
        self.elements.append(_record(value, timestamp))

    def collect_side(self, tag_id: str, value: object, timestamp: int) -> None:
        self.side_elements.setdefault(tag_id, []).append(_record(value, timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        self.elements.append(Watermark(timestamp))

    def emit_watermark_status(self, is_idle: bool) -> None:
        self.elements.append(WatermarkStatus.IDLE if is_idle else WatermarkStatus.ACTIVE)

    def emit_latency_marker(self, marker: object) -> None:
        self.elements.append(marker)


def _record(value: object, timestamp: int) -> StreamRecord:
    return StreamRecord(value, None if timestamp == NO_TIMESTAMP else timestamp)


class OperatorHarness:
    """One operator as a task would run it, but for its clock, its mailbox and its output, which the test has.

    Parameters
    ----------
    operator : StreamOperator
        A fresh one; its state and its function are its own.
    key_type : TypeInformation, optional
        Of the keys of a keyed operator, if it was declared.
    is_keyed : bool, default True
        Whether there is keyed state; an operator that has no use for it does not mind.
    parallelism, max_parallelism, subtask_index : int
        Where the operator stands among its subtasks.
    restore : OperatorSnapshot or iterable of OperatorSnapshot, optional
        What `snapshot` returned: of the one subtask, or of all subtasks of the old job in order, at any parallelism.
    clock : ManualClock, optional
        Processing time; made if it is not given.
    is_batch : bool, default False
        Run it as in batch execution. Records of keyed inputs are kept until `end_input` was called for all of them,
        then come sorted by key and time; with the end of a key its timers fire and its state goes. Event time ends
        behind the last record.
    sort_keys : sequence of SortKey or None, optional
        In batch: by what each input is sorted, None where it is not. `of` finds them in the program.

    Notes
    -----
    A harness is a context manager, which opens the operator and closes it. Flink:
    KeyedOneInputStreamOperatorTestHarness, TwoInputStreamOperatorTestHarness.

    Examples
    --------
    >>> from flinkbuf._core.operators.function_operator import MapOperator
    >>> with OperatorHarness(MapOperator(lambda value: value + 1)) as harness:
    ...     harness.process_element(1, 10)
    ...     harness.process_watermark(10)
    ...     harness.output
    [StreamRecord(value=2, timestamp=10), Watermark(timestamp=10)]
    """

    _batch: BatchRecords | None = None

    def __init__(
        self,
        operator: StreamOperator,
        *,
        key_type: TypeInformation | None = None,
        is_keyed: bool = True,
        parallelism: int = 1,
        max_parallelism: int = 128,
        subtask_index: int = 0,
        restore: OperatorSnapshot | Iterable[OperatorSnapshot] | None = None,
        clock: ManualClock | None = None,
        settings: ExecutionSettings | None = None,
        is_batch: bool = False,
        sort_keys: Sequence[SortKey | None] = (),
    ) -> None:
        settings = settings or ExecutionSettings()
        if is_batch:
            settings = dataclasses.replace(settings, is_batch=True)
            self._batch = BatchRecords(sort_keys)
        self.operator = operator
        self.clock = clock if clock is not None else ManualClock()
        self.mailbox = ManualMailbox()
        self.metrics = MetricGroup()
        self._output = CollectingOutput()
        self._is_open = self._is_closed = False
        self._ended: list[int] = []
        snapshots = (restore,) if isinstance(restore, OperatorSnapshot) else restore
        self._restored = None if snapshots is None else redistribute(snapshots, parallelism, subtask_index)
        name = type(operator).__name__
        self.context = make_context(
            TaskInfo("job", "harness", "vertex", name, subtask_index, parallelism, max_parallelism),
            OperatorConfig("0" * 32, name, lambda: operator, is_keyed=is_keyed, key_type=key_type),
            settings=settings,
            clock=self.clock,
            processing_time=self.clock,
            mailbox=self.mailbox,
            metrics=self.metrics,
        )

    @classmethod
    def of(cls, stream: object, **options: Any) -> OperatorHarness:
        """Run the last operator of a stream: what `map`, `process` or a window's `aggregate` returned.

        Parameters
        ----------
        stream : DataStream
            Its operator gets a copy of the function, as in a job; whatever comes before it is the test's.
        **options
            As for the class.

        Raises
        ------
        TypeError
            If nothing but a partitioning or a side output stands there, or a source, which takes no records.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> totals = env.from_collection([]).key_by(lambda pair: pair[0]).sum(1)
        >>> with OperatorHarness.of(totals) as harness:
        ...     harness.process_elements([("JFK", 2), ("LGA", 3), ("JFK", 5)])
        ...     harness.output_values
        [('JFK', 2), ('LGA', 3), ('JFK', 7)]

        In batch execution there is one result a key, when all is there:

        >>> with OperatorHarness.of(totals, is_batch=True) as harness:
        ...     harness.process_elements([("JFK", 2), ("LGA", 3), ("JFK", 5)])
        ...     harness.end_input()
        ...     harness.output_values
        [('JFK', 7), ('LGA', 3)]
        """
        transformation = getattr(stream, "_transformation", None)
        if not isinstance(transformation, OperatorTransformation) or transformation.is_source:
            raise TypeError(f"a stream whose last operator takes records is needed, got {type(stream).__name__}")
        factory = cloudpickle.loads(cloudpickle.dumps(transformation.factory))
        options = {"key_type": transformation.key_type, "is_keyed": transformation.is_keyed, **options}
        if options.get("is_batch"):
            options = {"sort_keys": sort_keys_of(transformation), **options}
        return cls(factory(), **options)

    def open(self) -> None:
        """Set the operator up, restore its state and open it."""
        self._is_open = True
        self.operator.setup(self.context, self._output)
        self.operator.initialize_state(self._restored)
        self.operator.open()

    def process_element(self, value: object, timestamp: int | None = None, input: int = 1) -> None:
        """Give the operator a record; `input` counts from 1."""
        target = self._input(input)
        if self._batch is not None and self._batch.is_sorted(input - 1):
            self._batch.add(input - 1, value, timestamp)
            return
        target.process_element(value, NO_TIMESTAMP if timestamp is None else timestamp)

    def process_elements(self, elements: Iterable[object], input: int = 1) -> None:
        """Give the operator `StreamRecord`, `Watermark` and `WatermarkStatus` objects; anything else is a record."""
        for element in elements:
            if isinstance(element, Watermark):
                self.process_watermark(element.timestamp, input)
            elif isinstance(element, WatermarkStatus):
                self.process_watermark_status(element is WatermarkStatus.IDLE, input)
            elif isinstance(element, StreamRecord):
                self.process_element(element.value, element.timestamp, input)
            else:
                self.process_element(element, None, input)

    def process_watermark(self, timestamp: int, input: int = 1) -> None:
        """Let event time of an input come to `timestamp`."""
        self._input(input).process_watermark(timestamp)

    def process_watermark_status(self, is_idle: bool, input: int = 1) -> None:
        """Make an input idle or active."""
        self._input(input).process_watermark_status(is_idle)

    def set_processing_time(self, now_ms: int) -> None:
        """Set the clock and call the timers that it has passed."""
        self.clock.advance_to(now_ms)

    def run_mails(self) -> int:
        """Run what was submitted to the mailbox; returns how many mails."""
        return self.mailbox.run_all()

    def end_input(self, input: int = 1) -> None:
        """Tell the operator that an input has ended; in batch it gets its sorted records now, with the last of them."""
        self._check_open()
        if self._batch is None:
            self.operator.end_input(input)
            return
        self._ended.append(input)
        if self._batch.end(input - 1):
            self._process_batch()

    def _process_batch(self) -> None:
        current: bytes | None = None
        for key, timestamp, index, value in self._batch.take():  # type: ignore[union-attr]
            if current is not None and key != current:
                keyed_state = self.context.keyed_state
                assert isinstance(keyed_state, BatchKeyedStateBackend)
                keyed_state.end_key()
            current = key
            self.operator.inputs[index].process_element(value, timestamp)
        for input in self._ended:
            self.operator.inputs[input - 1].process_watermark(MAX_WATERMARK)
            self.operator.end_input(input)
        self._ended = []

    def finish(self) -> None:
        """Tell the operator that all inputs have ended."""
        self._check_open()
        self.operator.finish()

    def snapshot(self, checkpoint_id: int = 1) -> OperatorSnapshot:
        """Take a snapshot, as a checkpoint does between two records."""
        self._check_open()
        self.operator.prepare_snapshot_pre_barrier(checkpoint_id)
        return self.operator.snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the operator that a checkpoint counts, everywhere."""
        self._check_open()
        self.operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the operator that a checkpoint will never count."""
        self._check_open()
        self.operator.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the operator, once."""
        if self._is_open and not self._is_closed:
            self._is_closed = True
            try:
                self.operator.close()
            finally:
                self.context.close()

    def __enter__(self) -> OperatorHarness:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def output(self) -> list[object]:
        """All that came out on the main output: `StreamRecord`, `Watermark`, `WatermarkStatus`, in order."""
        return self._output.elements

    @property
    def output_values(self) -> list[object]:
        """The values of the records that came out on the main output."""
        return [element.value for element in self.output if isinstance(element, StreamRecord)]

    def side_output(self, tag: OutputTag | str) -> list[StreamRecord]:
        """Return the records of a side output; `tag` is an `OutputTag` or its id."""
        return self._output.side_elements.get(tag if isinstance(tag, str) else tag.tag_id, [])

    def take_output(self) -> list[object]:
        """Return what came out on the main output since the last call, and forget it."""
        elements = self._output.elements
        self._output.elements = []
        return elements

    def _input(self, number: int) -> Input:
        self._check_open()
        inputs = self.operator.inputs
        if not 1 <= number <= len(inputs):
            raise ValueError(f"the operator has {len(inputs)} inputs, counted from 1; got {number}")
        return inputs[number - 1]

    def _check_open(self) -> None:
        if not self._is_open or self._is_closed:
            raise RuntimeError("the harness is not open: use it in a with block, or call open() first")
