from collections.abc import Callable
from typing import Any, final

from flinkbuf._core.flow.record_reader import RecordReader
from flinkbuf._core.operators.source_operator import SourceOutput
from flinkbuf._core.operators.stream_operator import Input, Output
from flinkbuf._core.task.operator_chain import OperatorCounters
from flinkbuf._core.task.record_writer_output import TaskOutputs
from flinkbuf._core.task.task_mailbox import TaskMailbox

@final
class TaskTurn:
    def __init__(self, mailbox: TaskMailbox, outputs: TaskOutputs, length_ns: int = 1_000_000) -> None: ...
    @property
    def length_ns(self) -> int: ...

@final
class TaskSourceOutput(SourceOutput):
    def __init__(self, target: Output, turn: TaskTurn) -> None: ...

@final
class NetworkInput:
    def __init__(
        self,
        reader: RecordReader,
        target: Input,
        turn: TaskTurn,
        counters: OperatorCounters,
        task_counters: OperatorCounters,
        make_valve: Callable[[int, NetworkInput], Any],
        events: Any,
    ) -> None: ...
    @property
    def reader(self) -> RecordReader: ...
    target: Input
    def emit_next(self) -> int: ...
    def process_priority(self) -> bool: ...
    def emit_watermark(self, timestamp: int) -> None: ...
    def emit_watermark_status(self, is_idle: bool) -> None: ...
