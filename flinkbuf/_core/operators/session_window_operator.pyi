from typing import Any

from flinkbuf._core.operators.incremental_window_operator import IncrementalWindowOperator

class SessionWindowOperator(IncrementalWindowOperator):
    def __init__(self, operation: Any) -> None: ...
