from collections.abc import Callable, Iterable
from typing import Any, final

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf._core.value.type_codec import TypeCodec

class GatheringOperator(StreamOperator): ...

@final
class MapBatchesOperator(GatheringOperator):
    def __init__(
        self,
        call: Callable[[Any, Any], Iterable[tuple[ArrowBatch, Any, TypeCodec]]],
        gathered: RecordsToBatch,
        lifecycle: Any = None,
        max_delay_ms: int = -1,
    ) -> None: ...

@final
class AsColumnsOperator(GatheringOperator):
    def __init__(
        self,
        make: Callable[[Any, Any], Iterable[Any]],
        batch_classes: tuple[type, ...],
        gathered: RecordsToBatch,
        max_delay_ms: int = -1,
    ) -> None: ...

@final
class AsRecordsOperator(StreamOperator):
    rows_in: int

    def __init__(self, call: Callable[[Any], Iterable[tuple[ArrowBatch, Any, TypeCodec]]]) -> None: ...
