from collections.abc import Callable, Iterable
from typing import Any

from flinkbuf._core.flow.record_reader import RecordReader
from flinkbuf._core.operators.stream_operator import Input, StreamOperator
from flinkbuf._core.sort.record_sorter import RecordSorter
from flinkbuf._core.task.stream_input import TaskTurn
from flinkbuf._core.value.type_codec import TypeCodec

class SortedInput(Input):
    @property
    def index(self) -> int: ...
    @property
    def sorter(self) -> RecordSorter: ...
    @property
    def last_watermark(self) -> int: ...
    def __init__(
        self,
        index: int,
        reader: RecordReader,
        operator: StreamOperator,
        target: Input,
        selector: Callable[[Any], Any] | None,
        key_codec: TypeCodec | None,
        sorter: RecordSorter,
    ) -> None: ...
    def emit_watermark(self) -> None: ...

class SortedMerge:
    def __init__(
        self, inputs: Iterable[SortedInput], turn: TaskTurn, ends: Any, on_end: Callable[[SortedInput], None]
    ) -> None: ...
    def begin(self) -> None: ...
    def emit_next(self) -> int: ...
