from typing import Any

from flinkbuf._core.operators.aligned_window_operator import AlignedWindowOperator

class CombinedWindowOperator(AlignedWindowOperator):
    def __init__(self, operation: Any) -> None: ...
