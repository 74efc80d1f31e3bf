from collections.abc import Iterable
from typing import Any

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.flow.batch_reader import BatchBuilder
from flinkbuf._core.value.type_codec import TypeCodec

def write_values(codec: TypeCodec, batches: Iterable[ArrowBatch], values: BatchBuilder) -> Any: ...
def read_values(
    bytes_codec: TypeCodec, batches: Iterable[ArrowBatch], rows: BatchBuilder, is_permissive: bool
) -> Any: ...
