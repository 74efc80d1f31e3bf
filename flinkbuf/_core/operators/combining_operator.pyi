from collections.abc import Callable
from typing import Any

from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf._core.value.type_codec import TypeCodec

class Panes:
    def __init__(self, assigner: Any) -> None: ...

class CombiningOperator(StreamOperator):
    @property
    def count(self) -> int: ...
    def __init__(
        self,
        selector: Callable[[Any], Any],
        key_codec: TypeCodec | None,
        make_state: Callable[[Any], Any],
        *,
        reduce: Callable[[Any, Any], Any] | None = None,
        aggregate_function: Any = None,
        panes: Panes | None = None,
        lifecycle: Any = None,
        max_delay_ms: int = -1,
    ) -> None: ...
