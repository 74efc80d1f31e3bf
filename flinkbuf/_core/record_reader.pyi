from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flinkbuf._core.input_gate import InputGate
from flinkbuf._core.type_codec import TypeCodec

class RecordReader(Iterator[Any]):
    gate: InputGate
    def __new__(
        cls, gate: InputGate, codec: TypeCodec, event_of: Callable[[int, bytes, int], Any] | None = None
    ) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def read_column(self, dtype: Any, count: int) -> np.ndarray: ...
    def close(self) -> None: ...
