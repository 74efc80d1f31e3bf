from collections.abc import Callable
from typing import Any

from flinkbuf._core.operators.stream_operator import StreamOperator

class FieldReduce:
    @property
    def position(self) -> int | str: ...
    def __init__(self, kind: str, position: int | str) -> None: ...
    def __call__(self, value1: Any, value2: Any) -> Any: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

class ReduceOperator(StreamOperator):
    def __init__(
        self,
        selector: Callable[[Any], Any],
        reduce: Callable[[Any, Any], Any],
        descriptor: Any,
        lifecycle: Any = None,
        is_batch: bool = False,
        is_combined: bool = False,
    ) -> None: ...
    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...
    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...
