from collections.abc import Callable
from typing import Any

from flinkbuf._core.operators.stream_operator import MultipleInputOperator

class ProcessJoinContext:
    def get_left_timestamp(self) -> int: ...
    def get_right_timestamp(self) -> int: ...
    def get_timestamp(self) -> int: ...

class IntervalJoinOperator(MultipleInputOperator):
    def __init__(
        self,
        function: Any,
        combined: Any,
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        bounds_ms: tuple[int, int],
        late_tags: tuple[str | None, str | None],
        descriptors: tuple[Any, Any],
    ) -> None: ...
    @property
    def function(self) -> Any: ...
    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...
    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...
