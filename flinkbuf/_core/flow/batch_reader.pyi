from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flinkbuf._core.columns.arrow_column import ArrowPlan
from flinkbuf._core.flow.record_buffers import RecordBufferReader
from flinkbuf._core.flow.record_reader import RecordReader
from flinkbuf._core.value.type_codec import TypeCodec

class ArrowData:
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...

class BatchBuilder:
    def __init__(
        self, plan: ArrowPlan, schema: Any, make: Callable[[ArrowData], Any], max_rows: int, max_bytes: int
    ) -> None: ...

class BatchBufferReader(RecordBufferReader):
    def __init__(self, buffers: Iterable[Any], codec: TypeCodec, builder: BatchBuilder) -> None: ...

class GateBatches(Iterator[Any]):
    def __init__(self, reader: RecordReader, builder: BatchBuilder) -> None: ...
    def __next__(self) -> Any: ...

class TaskBatches(GateBatches):
    def __init__(
        self, reader: RecordReader, builder: BatchBuilder, check_task: Callable[[], object], linger_ms: int
    ) -> None: ...

def same(error: Exception) -> Exception: ...
