from typing import Any

from flinkbuf._core.operators.window_operator import WindowOperator

class IncrementalWindowOperator(WindowOperator):
    def __init__(self, operation: Any) -> None: ...
