from collections.abc import Callable, Sequence
from typing import Any, final

from flinkbuf._core.operators.stream_operator import MultipleInputOperator, StreamOperator

class FunctionOperator(StreamOperator):
    def __init__(
        self,
        function: Callable[[Any], Any],
        lifecycle: Any = None,
        key_selector: Callable[[Any], Any] | None = None,
    ) -> None: ...
    @property
    def function(self) -> Callable[[Any], Any]: ...

@final
class MapOperator(FunctionOperator): ...

@final
class FilterOperator(FunctionOperator): ...

@final
class FlatMapOperator(FunctionOperator): ...

class CoFunctionOperator(MultipleInputOperator):
    def __init__(
        self,
        functions: Sequence[Callable[[Any], Any]],
        combined: Any,
        lifecycle: Any = None,
        key_selectors: Sequence[Callable[[Any], Any]] | None = None,
    ) -> None: ...
    @property
    def functions(self) -> tuple[Callable[[Any], Any], ...]: ...

class CoMapOperator(CoFunctionOperator): ...
class CoFlatMapOperator(CoFunctionOperator): ...
