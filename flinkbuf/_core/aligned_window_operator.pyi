from typing import Any

from flinkbuf._core.window_operator import WindowOperator

class AlignedWindowOperator(WindowOperator):
    def __init__(self, operation: Any) -> None: ...
