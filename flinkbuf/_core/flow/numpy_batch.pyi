from typing import Any

from flinkbuf._core.columns.arrow_column import ArrowBatch

class NumpyBatch:
    def __init__(self, length: int, columns: list[tuple[bytes, bytes, int, tuple[Any, ...]]]) -> None: ...

def numpy_batch(length: int, columns: list[tuple[bytes, bytes, int, tuple[Any, ...]]]) -> ArrowBatch: ...
