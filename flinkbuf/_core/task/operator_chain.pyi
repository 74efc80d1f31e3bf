from collections.abc import Iterable
from typing import Any, final

from flinkbuf._core.operators.stream_operator import Input, Output

class OperatorCounters:
    @property
    def records_in(self) -> int: ...
    @property
    def records_out(self) -> int: ...
    @property
    def input_watermark(self) -> int: ...
    @property
    def output_watermark(self) -> int: ...

class EdgeOutput(Output):
    @property
    def tag(self) -> str | None: ...
    @property
    def value_in_hand(self) -> Any: ...
    @property
    def is_writing(self) -> bool: ...
    def send_waiting(self) -> None: ...

@final
class ChainingOutput(EdgeOutput):
    def __init__(
        self,
        counters: OperatorCounters,
        target: Input,
        target_counters: OperatorCounters,
        tag: str | None = None,
        copies: bool = False,
    ) -> None: ...

@final
class BroadcastingOutput(Output):
    def __init__(
        self, counters: OperatorCounters, task_counters: OperatorCounters, edges: Iterable[EdgeOutput]
    ) -> None: ...
    @property
    def edges(self) -> list[EdgeOutput]: ...
