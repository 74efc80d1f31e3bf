from collections.abc import Callable, Iterable
from typing import Any, final

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf._core.value.type_codec import TypeCodec

@final
class MapBatchesOperator(StreamOperator):
    def __init__(
        self,
        call: Callable[[Any, Any], Iterable[tuple[ArrowBatch, Any, TypeCodec]]],
        gathered: RecordsToBatch,
        lifecycle: Any = None,
        max_delay_ms: int = -1,
    ) -> None: ...
