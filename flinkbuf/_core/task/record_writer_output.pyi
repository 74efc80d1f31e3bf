from collections.abc import Callable, Iterable
from typing import Any, final

from flinkbuf._core.flow.record_writer import RecordWriter
from flinkbuf._core.task.operator_chain import EdgeOutput, OperatorCounters

class RecordWriterOutput(EdgeOutput):
    def __init__(
        self,
        counters: OperatorCounters,
        task_counters: OperatorCounters,
        writer: RecordWriter,
        random: Any,
        tag: str | None = None,
    ) -> None: ...
    @property
    def writer(self) -> RecordWriter: ...

@final
class PageOutput(RecordWriterOutput):
    row_count: int

    def __init__(
        self,
        counters: OperatorCounters,
        task_counters: OperatorCounters,
        writer: RecordWriter,
        random: Any,
        pages_of: Callable[[Any], Iterable[tuple[int | None, bytes]]],
        tag: str | None = None,
    ) -> None: ...

@final
class TaskOutputs:
    def __init__(self, writers: Iterable[RecordWriter]) -> None: ...
    @property
    def writers(self) -> list[RecordWriter]: ...
    @property
    def is_available(self) -> bool: ...
