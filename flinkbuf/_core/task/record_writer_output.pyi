from collections.abc import Callable, Iterable
from typing import Any, final

from flinkbuf._core.flow.record_writer import RecordWriter
from flinkbuf._core.task.operator_chain import EdgeOutput, OperatorCounters
from flinkbuf.records.small_elements import SmallElements
from flinkbuf.streaming.time.processing_time import ProcessingTimeService

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
    small: SmallElements | None

    def __init__(
        self,
        counters: OperatorCounters,
        task_counters: OperatorCounters,
        writer: RecordWriter,
        random: Any,
        pages_of: Callable[[Any], Iterable[tuple[int | None, bytes]]],
        tag: str | None = None,
        small: SmallElements | None = None,
        processing_time: ProcessingTimeService | None = None,
        max_delay_ms: int = -1,
    ) -> None: ...

@final
class TaskOutputs:
    def __init__(self, writers: Iterable[RecordWriter]) -> None: ...
    @property
    def writers(self) -> list[RecordWriter]: ...
    @property
    def is_available(self) -> bool: ...
