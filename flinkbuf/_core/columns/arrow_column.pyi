from collections.abc import Collection, Iterator

import pyarrow as pa

from flinkbuf._core.value.type_codec import TypeCodec

class ArrowBatch:
    def __len__(self) -> int: ...

class ArrowStream:
    def __init__(self, capsule: object) -> None: ...
    def __iter__(self) -> ArrowStream: ...
    def __next__(self) -> ArrowBatch: ...

class ArrowPlan:
    def __init__(
        self, codec: TypeCodec, schema: pa.Schema, is_strict: bool = False, skipped: Collection[str] = ()
    ) -> None: ...

def batches_of(source: object) -> Iterator[ArrowBatch]: ...
